//! The engine's API: which engine, how it is reached, what it says of itself,
//! its images and its refusals.

mod address;
mod client;
mod context;
mod doctor;
mod error;
#[cfg(test)]
mod fake_engine;
mod image;
mod info;
mod podman;
mod registry;
mod socket;
mod ssh;

pub(in crate::backends::docker) use client::Client;
pub(in crate::backends::docker) use doctor::{Survey, report};
pub(in crate::backends::docker) use error::{Fault, fault, one_line, words};
#[cfg(test)]
pub(in crate::backends::docker) use image::Reference;
pub(in crate::backends::docker) use image::{ImageFacts, exists, full_id, known, resolve};
pub(in crate::backends::docker) use info::{EngineInfo, Flavour};
