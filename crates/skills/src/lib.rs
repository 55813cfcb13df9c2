#![doc = include_str!("../README.md")]

mod catalogue;
mod error;
mod front_matter;
mod install;
mod invoke;
pub mod keys;
mod manage;
mod package;
mod path;
mod remote;
mod skill;
mod skills;
mod switch;
#[cfg(test)]
mod testing;
mod tools;

pub use catalogue::{Broken, Catalogue, FileInfo, Survey};
pub use error::SkillError;
pub use front_matter::{FrontMatter, Problem, SkillVariable};
pub use install::{Installed, Proposal};
pub use invoke::{Need, VariableState};
pub use manage::{SkillChange, SkillChanged, SkillEdit};
pub use remote::{
    CatalogueEntry, FetchedSkill, InvalidSource, RemoteCatalogue, SkillOrigin, SkillSource,
};
pub use skill::{Skill, SkillName};
pub use skills::{Skills, from_settings};
pub use switch::SwitchedSkill;
