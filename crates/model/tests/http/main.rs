//! The provider client against a scripted model server over real HTTP.

mod answers;
mod connections;
mod failures;
mod fallback;
mod limits;
mod lists;
mod support;
