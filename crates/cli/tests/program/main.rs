//! The program as its users meet it: real processes, real exit codes, real terminals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod chat;
mod config;
mod conversations;
mod copy;
mod cron;
mod dashboard;
mod docker;
mod gateway;
mod gateway_install;
mod interactive;
mod jobs;
mod kanban;
mod logs;
mod mcp;
mod mcp_server;
mod memory;
mod migrate;
mod model;
mod native;
mod operations;
mod pages;
mod profiles;
mod run;
mod sandboxes;
mod serve;
mod shapes;
mod shell;
mod signals;
mod skills;
mod snapshots;
mod story;
mod support;
mod surface;
mod usage;
