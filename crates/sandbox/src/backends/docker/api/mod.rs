//! The engine's API: choosing and reaching an engine, its description, its images
//! and its errors.

mod address;
mod client;
mod context;
mod doctor;
mod error;
#[cfg(test)]
pub(in crate::backends::docker) mod fake_engine;
mod image;
mod info;
mod podman;
mod registry;
mod socket;
mod ssh;
mod tunnel;

pub(in crate::backends::docker) use client::EngineClient;
pub(in crate::backends) use context::find_program;
pub(in crate::backends::docker) use doctor::{DoctorScope, report};
pub(in crate::backends) use error::one_line;
pub(in crate::backends::docker) use error::{EngineFault, classify, error_text};
#[cfg(test)]
pub(in crate::backends::docker) use image::Reference;
pub(in crate::backends::docker) use image::{ImageInfo, exists, find_by_id, find_or_pull, full_id};
pub(in crate::backends::docker) use info::{EngineInfo, Flavour};
pub(in crate::backends) use socket::{make_private, private_dir};
pub(in crate::backends) use tunnel::EngineDialer;
