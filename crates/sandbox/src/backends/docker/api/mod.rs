//! The engine's API: which engine, how it is reached, what it says of itself,
//! its images and its refusals.

mod address;
mod client;
mod context;
mod credentials;
mod doctor;
#[cfg(test)]
mod fake_engine;
mod fault;
mod greeting;
mod image;
mod info;
pub(in crate::backends::docker) mod layers;
mod own_image;
mod podman;
mod pull;
mod reference;
mod socket;
mod ssh;
mod unreachable;

pub(in crate::backends::docker) use client::Client;
pub(in crate::backends::docker) use doctor::{Survey, report};
pub(in crate::backends::docker) use fault::{Fault, fault};
pub(in crate::backends::docker) use image::{ImageFacts, exists, known, resolve};
pub(in crate::backends::docker) use info::{EngineInfo, Flavour};
pub(in crate::backends::docker) use own_image::OwnImage;
