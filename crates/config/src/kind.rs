//! What a type of setting is made of, for owners that declare types of their own.
//!
//! A type implements [`Setting`](crate::Setting): it reads an [`Input`] or returns a [`Refusal`].
//! One that is a choice of words is declared with [`choices!`](crate::choices!).

pub use serde_json::Value as Json;

pub use crate::input::{Input, Refusal};
pub use crate::kinds::{Fields, choose, expand, is_name, one_of, path, scaled, texts, words};
pub use crate::suggest::closest;
pub use crate::yaml::{Entry, Node};
