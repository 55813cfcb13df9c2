use vestal_wire::{
    CallReply, CallRequest, Fault, FileCall, FileKind, FileOp, FileReply, FileVersion, Metadata,
};

use super::*;
use crate::client::fake_guest::{FakeGuest, connected, soon};

/// Inode of the boot directory on the host.
const BOOT: u64 = 7;

fn settings(home: &Path) -> Settings {
    let env = vestal_config::Environment::from_pairs([("HOME", "/nonexistent")]);
    Settings::load(&crate::schema(), vestal_config::Home::at(home), env, Vec::new())
}

/// Returns one mount of the host, whose recorded inode is 0.
fn one_mount(settings: &Settings, source: &Path, target: &str) -> HostMounts {
    HostMounts {
        own_dirs: OwnDirs::of(settings).unwrap(),
        requested: vec![HostMount {
            source: source.to_owned(),
            target: target.into(),
            writable: true,
        }],
        mounts: Mounts::untried(&[MountRequest { path: source.to_owned(), writable: true }]),
    }
}

#[test]
fn a_container_without_its_covers_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let home = root.join("user/vestal");
    std::fs::create_dir_all(&home).unwrap();
    let mounts = one_mount(&settings(&home), &root, "/all");
    let uncovered = |taken: &[&str]| {
        let taken = taken.iter().map(PathBuf::from).collect();
        mounts.uncovered(&taken).unwrap()
    };
    assert_eq!(uncovered(&["/all"]), Some(home.clone()));
    assert_eq!(uncovered(&["/all", "/all/user/vestal"]), Some(home.clone()), "it can be moved");
    assert_eq!(uncovered(&["/all", "/all/user", "/all/user/vestal"]), None);
}

/// Answers one stat with an inode or a fault.
async fn answer_stat(guest: &mut FakeGuest, answer: Result<u64, FaultCode>) {
    let (channel, request) = guest.request().await;
    let CallRequest::File(FileCall { op: FileOp::Stat { path, .. }, .. }) = request else {
        panic!("{request:?}")
    };
    let reply = match answer {
        Ok(inode) => CallReply::File(FileReply::Stat(Metadata {
            path,
            kind: FileKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            version: FileVersion { inode, size: 0, mtime_ns: 0 },
            target: None,
        })),
        Err(code) => CallReply::Fault(Fault::new(code, "no answer")),
    };
    guest.reply(channel, &reply).await;
}

/// Returns the outcome of the check if the guest answers so: for the boot directory,
/// then for the mount.
async fn checked(answers: &[Result<u64, FaultCode>]) -> Result<Option<PathBuf>, BackendError> {
    let home = tempfile::tempdir().unwrap();
    let mounts = one_mount(&settings(home.path()), Path::new("/source"), "/target");
    let (connection, mut guest) = connected().await;
    let files = Files::new(connection);
    let serve = async {
        for answer in answers {
            answer_stat(&mut guest, *answer).await;
        }
    };
    let check = mounts.compare_inodes(&files, BOOT);
    let (found, ()) = soon(async { tokio::join!(check, serve) }).await;
    found.map(|found| found.map(Path::to_owned))
}

#[tokio::test]
async fn a_mount_that_is_not_the_recorded_one_is_found() {
    assert_eq!(checked(&[Ok(BOOT), Ok(0)]).await.unwrap(), None);
    assert_eq!(checked(&[Ok(BOOT), Ok(1)]).await.unwrap(), Some("/source".into()));
    assert_eq!(checked(&[Ok(BOOT + 1)]).await.unwrap(), None, "in a virtual machine");
}

#[tokio::test]
async fn a_mount_that_cannot_be_checked_is_refused() {
    for code in [FaultCode::Denied, FaultCode::NotFound, FaultCode::Internal] {
        let error = checked(&[Ok(BOOT), Err(code)]).await.unwrap_err();
        if code == FaultCode::Denied {
            assert!(error.to_string().contains("mounted at /target"), "{error}");
            assert!(error.advice().unwrap().contains("terminal.docker_volumes"));
        }
        checked(&[Err(code)]).await.unwrap_err();
    }
}
