//! Code in colours, line by line.
//!
//! The colours are the terminal's own sixteen, so that code suits whatever theme a
//! person has chosen. A few colours need no grammar: a small lexer knows for each
//! language what its comments, strings and keywords are. Syntaxes made of regular
//! expressions were measured and left out: each language took some ten megabytes,
//! and its first lines many times what a key may take to be echoed.

mod console;
mod diff;
mod highlighter;
mod languages;
mod lexer;
mod markup;
mod tables;
mod words;

pub use highlighter::{Highlighter, highlight};

#[cfg(test)]
mod tests;
