//! Differences between files, for people.

mod between;
mod parse;
mod render;
mod words;

pub use between::between;
pub use render::render;

#[cfg(test)]
mod tests;
