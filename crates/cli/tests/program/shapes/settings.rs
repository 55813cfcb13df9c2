//! Profiles, settings, memory, skills, MCP servers.

use std::fs;

use super::Transcript;
use crate::mcp;
use crate::skills;
use crate::support::ProgramFixture;

#[test]
fn profiles_and_settings() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["profile", "create", "work", "--description", "For work."]);
    calls.call(&["profile", "list"]);
    calls.call(&["profile", "show", "work"]);
    calls.call(&["profile", "use", "work"]);
    calls.call(&["profile", "rename", "-y", "work", "office"]);
    calls.call(&["profile", "export", "office", "-o", "office.tar.gz"]);
    calls.call(&["profile", "import", "office.tar.gz", "--name", "again"]);
    calls.call(&["profile", "delete", "-y", "again"]);
    calls.call_exiting(&["profile", "show", "no-such"], 1);
    fs::write(
        fixture.home().join("profiles/office/config.yaml"),
        "terminal:\n  retention_seconds: 2d\n  retention_secs: 1\n",
    )
    .unwrap();
    calls.call(&["config", "show", "--changed"]);
    calls.call(&["config", "get", "terminal.retention_seconds"]);
    calls.call_exiting(&["config", "get", "terminal.retention"], 125);
    calls.call_exiting(&["config", "check"], 1);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn memory() {
    let fixture = ProgramFixture::automatic();
    let mut calls = Transcript::new(&fixture);
    calls.call(&["memory", "add", "likes tea"]);
    calls.call(&["memory", "replace", "tea", "likes coffee"]);
    calls.call(&["memory", "remove", "coffee"]);
    calls.call(&["memory"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn skills() {
    let fixture = ProgramFixture::automatic();
    let variable = "required_environment_variables: [{name: GO_TOKEN, help: h}]";
    skills::skill(&fixture, "go", &format!("tags: [x]\nversion: 1.2\n{variable}\n"));
    let mut calls = Transcript::new(&fixture);
    calls.call(&["skills", "install", "-y", "go"]);
    fs::create_dir_all(fixture.home().join("skills/bad")).unwrap();
    fs::write(fixture.home().join("skills/bad/SKILL.md"), "nothing").unwrap();
    calls.call(&["skills", "list"]);
    calls.call(&["skills", "show", "go"]);
    calls.call_exiting(&["skills", "check"], 1);
    calls.call(&["skills", "remove", "-y", "go"]);
    insta::assert_snapshot!(calls.text);
}

#[test]
fn mcp_servers() {
    let fixture = ProgramFixture::automatic();
    let program = mcp::server(&fixture);
    fixture.vestal(["mcp", "add", "small", "--", program.to_str().unwrap(), "word"]).exits(0);
    let mut calls = Transcript::new(&fixture);
    calls.call(&["mcp", "list"]);
    calls.call(&["mcp", "test", "small"]);
    calls.call(&["mcp", "tools", "small"]);
    fs::remove_file(&program).unwrap();
    calls.call_exiting(&["mcp", "test", "small"], 1);
    insta::assert_snapshot!(calls.text);
}
