//! Workers: real processes against a scripted model.

mod bench;
mod ends;
mod places;
mod reports;
mod tools;
