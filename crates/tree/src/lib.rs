#![doc = include_str!("../README.md")]

mod change;
mod glob;
mod ignore;
mod read;
mod root;
mod scan;
mod serve;
mod target;

pub use glob::{Case, Glob, GlobError, Wildcard, lower, upper};
pub use ignore::{IgnoreDecision, IgnoreRules};
pub use root::{OpenTree, TreeError};
pub use serve::{TreeSink, serve};
