//! Workers: real processes against a scripted model.

mod ends;
mod fixture;
mod places;
mod reports;
mod tools;
