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

pub(in crate::backends::docker) use client::EngineClient;
pub(in crate::backends::docker) use doctor::{DoctorScope, report};
pub(in crate::backends::docker) use error::{EngineFault, classify, error_text, one_line};
#[cfg(test)]
pub(in crate::backends::docker) use image::Reference;
pub(in crate::backends::docker) use image::{ImageInfo, exists, find_by_id, find_or_pull, full_id};
pub(in crate::backends::docker) use info::{EngineInfo, Flavour};
