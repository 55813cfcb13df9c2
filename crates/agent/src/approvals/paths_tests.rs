use serde_json::json;
use vestal_sandbox::Reach;

use super::guard::{Dirs, WorkingDir};
use super::guard_tests::{DANGEROUS, decide, dir, guard, policy, situation, status};
use super::path_context::PathContext;
use super::paths::*;
use super::policy::{Clearance, RefusalStatus};
use crate::human::{Approval, NoHuman};
use crate::testing::{AgentFixture, Scripted};
use crate::tools::WriteFile;

fn path_context() -> PathContext {
    PathContext { user_home: Some("/home/me".to_owned()), ..PathContext::default() }
}

#[test]
fn a_path_has_one_form() {
    let cases = [
        ("/", None, "/"),
        ("//a//b/", None, "/a/b"),
        ("/a/./b/../c", None, "/a/c"),
        ("/../..", None, "/"),
        ("~", None, "~"),
        ("~/a/../b", None, "~/b"),
        ("~/..", None, "/home"),
        ("~/../../etc", None, "/etc"),
        ("/home/me", None, "~"),
        ("/home/me/a", None, "~/a"),
        ("/home/mean", None, "/home/mean"),
        ("/home/x/../me", None, "~"),
        ("a/b", None, "a/b"),
        ("./a/..", None, "."),
        ("../a", None, "../a"),
        ("a", Some("/srv"), "/srv/a"),
        ("..", Some("/srv"), "/"),
        (".", Some("~"), "~"),
        ("/a", Some("/srv"), "/a"),
        ("", None, "."),
    ];
    for (path, cwd, expected) in cases {
        assert_eq!(canonical(path, cwd, &path_context()), expected, "{path} in {cwd:?}");
    }
}

#[test]
fn only_what_cannot_be_replaced_is() {
    for path in [
        "/",
        "/*",
        "/etc",
        "/etc/*",
        "/usr/*/*",
        "~",
        "~/*",
        "~/.*",
        "/home/you",
        "/home/*",
        "/e*",
        "~you",
    ] {
        assert!(irreplaceable(path).is_some(), "{path}");
    }
    for path in [
        "/tmp",
        "/tmp/*",
        "~/x",
        "/etc/hosts",
        "/home/you/x",
        "*",
        "build/*",
        ".",
        "..",
        "/opt/app",
        "/x*",
    ] {
        assert!(irreplaceable(path).is_none(), "{path}");
    }
}

#[tokio::test]
async fn a_file_is_written_unasked_only_where_a_command_may_write_and_disks_never() {
    let guard = guard(policy());
    let situation = situation(Reach::Host, &NoHuman);
    for path in [
        "/etc/passwd",
        "/etc/sudoers.d/x",
        "/boot/grub.cfg",
        "/home/me/.ssh/authorized_keys",
        "/home/me/.bashrc",
        "/home/you/.zshrc",
        "/root/.profile",
        "/home/me/.aws/credentials",
        "/home/me/.vestal/config.yaml",
        "/home/me/.vestal/.env",
        "/home/me/.vestal/profiles/a/.env",
        "/home/me/.vestal/sandboxes/default/sandbox.json",
        "/usr/lib/systemd/system/x.service",
        "/home/me/.config/systemd/user/x.service",
        "/var/run/docker.sock",
        "/tmp/../etc/passwd",
        // Elsewhere than in the working directory.
        "/srv/app/config.yaml",
        "/home/me/other/important.txt",
        "/home/me/project/../x",
        "/home/me/.vimrc",
        "/home/me/.config/nvim/init.lua",
        "/home/me/.config/pip/pip.conf",
        "/home/me/.cargo/config.toml",
        "/home/me/.psqlrc",
        "/home/me/.emacs.d/init.el",
        "/home/me/.claude/settings.json",
        "/home/me/.local/lib/python3.11/site-packages/usercustomize.py",
        // Run, or read when something starts; and keys.
        "/home/me/project/.envrc",
        "/home/me/project/.husky/pre-commit",
        "/home/me/project/.git/hooks/pre-commit",
        "/home/me/project/.git/HEAD",
        "/home/me/project/.tmux.conf",
        "/home/me/project/.gdbinit",
        "/home/me/project/.claude/settings.json",
        "/home/me/project/.env",
        "/home/me/project/.env.local",
        "/home/me/project/keys/id_rsa",
        "/home/me/project/tls/server.pem",
    ] {
        let decision =
            decide(&guard, &situation, &guard.write_action(&Reach::Host, dir(), path), &NoHuman)
                .await;
        assert_eq!(status(&decision), Some(RefusalStatus::Unattended), "{path}");
    }
    for path in [
        "/home/me/project/src/main.rs",
        "/home/me/project/.env.example",
        "/home/me/project/.git/info/exclude",
        "/home/me/project/.gitignore",
        "/home/me/project/.github/workflows/ci.yml",
        "/home/me/project/etc/passwd",
        "/tmp/x",
        "/dev/null",
    ] {
        let decision =
            decide(&guard, &situation, &guard.write_action(&Reach::Host, dir(), path), &NoHuman)
                .await;
        assert_eq!(decision, Ok(Clearance::default()), "{path}");
    }
    guard.set_yolo(true);
    let decision =
        decide(&guard, &situation, &guard.write_action(&Reach::Host, dir(), "/dev/sda"), &NoHuman)
            .await;
    assert_eq!(status(&decision), Some(RefusalStatus::Blocked));
}

#[tokio::test]
async fn a_real_sandbox_without_isolation_is_the_host() {
    let human = Scripted::approving([Approval::Deny(None)]);
    let stage = AgentFixture::new().guarded_by(policy()).with_human(human.clone());
    let context = &stage.context;
    let refusal =
        context.guard.command(context, DANGEROUS, WorkingDir::Session).await.expect_err("denied");
    assert_eq!(refusal.status, RefusalStatus::Denied);
    assert_eq!(human.asked(), [DANGEROUS]);
    let sandbox = stage.sandbox().await;
    assert_eq!(sandbox.reach().await, Reach::Host);
    assert!(!sandbox.is_backend_automatic().await);
}

#[tokio::test]
async fn a_command_is_judged_by_where_it_runs_and_by_what_came_before() {
    let stage = AgentFixture::new().guarded_by(policy());
    let context = &stage.context;
    for (dir, command, expected) in [
        (WorkingDir::Session, "touch f", None),
        (WorkingDir::Given("/usr"), "touch f", Some(RefusalStatus::Unattended)),
        (WorkingDir::Given("/usr"), "ls f", None),
        (WorkingDir::Given("/var/cache"), "touch f", Some(RefusalStatus::Unattended)),
        (WorkingDir::Given("/var/cache"), "make", Some(RefusalStatus::Unattended)),
        (WorkingDir::Given("/no/such"), "touch f", Some(RefusalStatus::Unattended)),
        (WorkingDir::Unknown, "touch f", Some(RefusalStatus::Unattended)),
        // A session keeps its variables.
        (WorkingDir::Session, "echo $((x))", None),
        (WorkingDir::Session, "read x < f", None),
        (WorkingDir::Session, "echo $((x))", Some(RefusalStatus::Unattended)),
    ] {
        let decision = context.guard.command(context, command, dir).await;
        assert_eq!(status(&decision), expected, "{command} in {dir:?}");
    }
}

#[tokio::test]
async fn a_tool_writes_files_where_its_conversation_was_opened_and_not_behind_links() {
    let stage = AgentFixture::new().guarded_by(policy());
    stage.sandbox().await;
    let own = stage.start_dir();
    std::os::unix::fs::symlink("/usr/share", own.join("link")).unwrap();
    for (path, expected) in [
        (own.join("f"), None),
        (own.join("sub/f"), None),
        (own.join(".envrc"), Some(RefusalStatus::Unattended)),
        (own.join("link/f"), Some(RefusalStatus::Unattended)),
        ("/usr/share/f".into(), Some(RefusalStatus::Unattended)),
    ] {
        let arguments = json!({ "path": path, "content": "x" });
        let output = stage.output(&WriteFile, arguments).await;
        let refused = output.content.contains("Refused: this write");
        assert_eq!(
            (refused, output.is_error),
            (expected.is_some(), expected.is_some()),
            "{path:?}"
        );
        assert_eq!(path.exists(), expected.is_none(), "{path:?}");
        let decision = stage.context.guard.write(&stage.context, &path.to_string_lossy()).await;
        assert_eq!(status(&decision), expected, "{path:?}");
    }
}

#[test]
fn a_conversation_writes_and_builds_where_it_was_opened_wherever_its_shell_is() {
    let guard = guard(policy());
    let asked = |begins: &str, command: &str| {
        let dirs = Dirs { begins: Some(begins.into()), ..dir() };
        !guard.command_action(&Reach::Host, dirs, command).findings.is_empty()
    };
    for command in ["touch f", "git status", "make", "cargo test", "unzip a.zip"] {
        assert!(asked("/home/me/other", command), "{command}");
        assert!(!asked("/home/me/project/sub", command), "{command}");
    }
    for command in ["ls", "grep -rn x .", "touch /home/me/project/f", "touch /tmp/f"] {
        assert!(!asked("/home/me/other", command), "{command}");
    }
    assert!(asked("/tmp/e", "git status"));
    assert!(!asked("/tmp/e", "touch f"));
    let nowhere = Dirs { opened: None, ..dir() };
    assert!(!guard.command_action(&Reach::Host, nowhere, "touch f").findings.is_empty());
}
