//! What a board promises about its tasks, verb by verb, against a real store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod adopt;
mod authority;
mod create;
mod failures;
mod family;
mod finish;
mod hold;
mod model;
mod reads;
mod sequences;
mod support;
mod table;
mod waiting;
