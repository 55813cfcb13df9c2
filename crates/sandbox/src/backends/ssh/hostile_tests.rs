use std::fs;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;
use vestal_config::Environment;
use vestal_wire::machine::{MachineRequest, pack};

use super::*;

/// An `ssh` of the test's own: what it prints is what a machine would.
struct FakeSsh {
    dir: TempDir,
}

impl FakeSsh {
    /// Makes one that runs `script` for every command over there. `$nonce` is the request's.
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("ssh");
        let text = format!(
            "#!/bin/sh\ncd '{}'\nfor last; do :; done\ncase \"$*\" in *' -M -N '*|*' -O check '*) exit 0;; esac\n\
             nonce=$(echo \"$last\" | grep -o 'vestal-[0-9a-f]*' | tail -n 1)\n{script}\n",
            dir.path().display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Self { dir }
    }

    /// Makes one that answers with this after the line that says it runs.
    fn answering(reply: &[u8]) -> Self {
        let ssh = Self::new("echo; echo \"$nonce run\"; exec cat reply");
        fs::write(ssh.dir.path().join("reply"), reply).unwrap();
        ssh
    }

    async fn ask(&self) -> Result<MachineReply, BackendError> {
        let path = format!("{}:/usr/bin:/bin", self.dir.path().display());
        let environment = Environment::from_pairs([("PATH", path.as_str())]);
        let login = HostLogin { host: "there".into(), ..HostLogin::default() };
        let dir = self.dir.path();
        let machine = Machine::new(login, &dir.join("run"), dir.join("guests"), &environment)?;
        machine.ask(&MachineRequest::Look, &ProgressSink::default()).await
    }
}

#[tokio::test]
async fn a_machine_that_floods_or_lies_is_refused_and_costs_little() {
    // A megabyte of nothing, before a line that never comes, and one line without an end.
    let floods = [
        "head -c 1000000 /dev/zero | tr '\\0' 'x'; exit 1",
        "yes | head -c 1000000; exit 1",
        "yes",
        "cat /dev/zero",
    ];
    for flood in floods {
        let error = FakeSsh::new(flood).ask().await.unwrap_err();
        assert!(error.to_string().len() < 2000, "{flood}: {error}");
    }
    // A message of four gigabytes, one that is cut, and none.
    let cut = pack(&MachineReply::Done).unwrap();
    for reply in [&[0xff; 8][..], &[8, 0, 0, 0, 1], b"", &cut[..cut.len() - 1], b"\x04\0\0\0Hell"] {
        let error = FakeSsh::answering(reply).ask().await.unwrap_err();
        assert!(error.advice().is_some(), "{reply:?}: {error}");
    }
    // The answer of another question.
    let done = FakeSsh::answering(&cut).ask().await.unwrap();
    assert_eq!(done, MachineReply::Done);
}

#[tokio::test]
async fn a_machine_of_another_kind_names_no_file_of_this_one() {
    for (kind, words) in [
        ("FreeBSD amd64", "runs FreeBSD, not Linux"),
        ("Linux ../../etc/passwd", "there is no guest for machines of the architecture"),
        ("Linux sparc64", "there is no guest for machines of the architecture sparc64"),
    ] {
        let ssh = FakeSsh::new(&format!("echo; echo \"$nonce need {kind}\""));
        let error = ssh.ask().await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[tokio::test]
async fn a_machine_that_always_lacks_the_guest_is_not_asked_for_ever() {
    let architecture = std::env::consts::ARCH;
    let ssh = FakeSsh::new(&format!(
        "case \"$last\" in *upload*) echo \"$nonce ready\"; cat >/dev/null; echo \"$nonce stored x\";; \
         *) echo \"$nonce need Linux {architecture}\";; esac"
    ));
    let error = ssh.ask().await.unwrap_err();
    assert!(error.to_string().contains("it is gone right after it was stored"), "{error}");
}

#[tokio::test]
async fn a_login_that_is_refused_is_not_tried_again_at_once() {
    let ssh = FakeSsh::new("exit 255");
    // Everything fails, and says so in the words of ssh.
    let program = ssh.dir.path().join("ssh");
    fs::write(&program, "#!/bin/sh\necho x >>\"$(dirname \"$0\")/tries\"\necho 'me@there: Permission denied (publickey).' >&2\nexit 255\n").unwrap();
    let path = format!("{}:/usr/bin:/bin", ssh.dir.path().display());
    let environment = Environment::from_pairs([("PATH", path.as_str())]);
    let login = HostLogin { host: "there".into(), ..HostLogin::default() };
    let dir = ssh.dir.path();
    let machine = Machine::new(login, &dir.join("run"), dir.join("guests"), &environment).unwrap();
    for _ in 0..5 {
        let asked = machine.ask(&MachineRequest::Look, &ProgressSink::default()).await;
        let error = asked.unwrap_err();
        assert_eq!(error.to_string(), "there does not accept your key (publickey)");
    }
    assert_eq!(fs::read_to_string(dir.join("tries")).unwrap(), "x\n");
}
