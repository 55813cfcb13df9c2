//! The chat on a real terminal.

mod commands;
mod first_run;
mod leaving;
mod talking;
mod trouble;
mod world;
