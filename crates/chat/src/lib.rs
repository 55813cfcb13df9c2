//! The interactive chat. See the crate's README for the contract.

mod answer;
mod asked;
mod cells;
mod chat;
mod commands;
mod complete;
mod draw;
mod fresh;
pub mod image;
mod input;
mod job;
mod keys;
mod leave;
mod lend;
mod live;
mod mentions;
mod news;
mod program;
mod question;
mod run;
mod status_line;
mod surface;
mod tails;
mod talk;
mod tally;
mod text;
mod turns;
mod unfold;
mod view;
mod wait;
mod wake;

pub use asked::{Questions, asked, read_answer, read_approval};
pub use program::{Open, Opened, Outside, Program, Trouble};
pub use run::{Left, Parts, run, run_on};
pub use surface::{Lend, Surface};
