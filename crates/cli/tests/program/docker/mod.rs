//! Sandboxes that are containers, on a real engine.

mod durable;
mod errors;
mod images;
mod migrated;
mod projects;
mod pull;
mod verbs;
