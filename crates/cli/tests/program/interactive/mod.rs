//! The chat on a real terminal.

mod commands;
mod first_run;
mod fixture;
mod leaving;
mod lists;
mod talking;
mod trouble;
