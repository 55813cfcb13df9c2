//! Skills: folders of instructions and files that the agent can look at. See the
//! crate's README for the contract.

mod catalogue;
mod error;
mod front_matter;
mod install;
mod invoke;
mod limits;
mod manage;
mod name;
mod package;
mod place;
mod prompt;
mod skill;
mod skills;
mod source;
mod survey;
#[cfg(test)]
mod testing;
mod tools;
mod variables;

pub use catalogue::{Broken, Catalogue};
pub use error::SkillError;
pub use front_matter::{FrontMatter, Problem, Variable};
pub use install::{Installed, Proposal};
pub use manage::{Change, Changed, Edit};
pub use name::SkillName;
pub use skill::Skill;
pub use skills::{Skills, from_settings};
pub use survey::{FileInfo, Survey};
pub use variables::{Need, State};
