//! Images: files and directories of this machine, and those that Apptainer fetches or
//! converts, which are kept as files of the Vestal home.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;
use vestal_config::{AnyKey as _, Settings};

use super::program::ApptainerProgram;
use super::settings::{ApptainerImage, SINGULARITY_IMAGE};
use crate::backend::BackendError;
use crate::backends::guest_process::spawn_retrying;
use crate::key::{hex, random_hex};
use crate::store::{make_private_dir, remove_tree};
use crate::{Progress, ProgressSink};

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocalImage {
    /// A SIF file, another image file or a directory.
    pub(super) path: PathBuf,
    /// Which it is: another one is another lower layer of an overlay.
    pub(super) identity: String,
}

/// How the name of an image ends that is not whole yet, and that of the directory in which it is
/// made.
const TEMPORARY: &str = ".tmp";

/// The variable that names where the program makes images.
pub(super) const TEMPORARY_DIRECTORY: &str = "APPTAINER_TMPDIR";

/// Pause between two looks at a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Most bytes of the program's output that go into an error.
const MAX_SHOWN: usize = 800;

/// Most bytes that are kept of it.
const MAX_PRINTED: usize = 64 << 10;

/// Variables of the caller that only fetching an image needs: logins of registries, and how
/// the network is reached.
const FETCH_VARIABLES: [&str; 14] = [
    "APPTAINER_DOCKER_USERNAME",
    "APPTAINER_DOCKER_PASSWORD",
    "SINGULARITY_DOCKER_USERNAME",
    "SINGULARITY_DOCKER_PASSWORD",
    "DOCKER_CONFIG",
    "DOCKER_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Returns the file in which a fetched image is kept.
fn kept_file(run_dir: &Path, image: &ApptainerImage) -> PathBuf {
    let name = hex(&Sha256::digest(image.as_str().as_bytes())[..16]);
    images_dir(run_dir).join(format!("{name}.sif"))
}

fn images_dir(run_dir: &Path) -> PathBuf {
    run_dir.join("apptainer").join("images")
}

/// Returns the image if it is on this machine; nothing for one that is to be fetched.
pub(super) fn find(
    image: &ApptainerImage,
    user_home: Option<&Path>,
    run_dir: &Path,
) -> Result<Option<LocalImage>, BackendError> {
    match image.path(user_home) {
        Some(path) => look_at(image, &path).map(Some),
        None => {
            let kept = kept_file(run_dir, image);
            if kept.exists() { look_at(image, &kept).map(Some) } else { Ok(None) }
        }
    }
}

/// Returns the image, fetched if it is not there.
pub(super) async fn find_or_fetch(
    program: &ApptainerProgram,
    settings: &Settings,
    image: &ApptainerImage,
    progress: &ProgressSink,
) -> Result<LocalImage, BackendError> {
    let user_home = settings.environment().user_home();
    let run_dir = settings.home().run_dir();
    if let Some(found) = find(image, user_home.as_deref(), &run_dir)? {
        return Ok(found);
    }
    let failed = |error: std::io::Error| BackendError::Io {
        action: "keep an image".to_owned(),
        source: error,
    };
    let dir = images_dir(&run_dir);
    make_private_dir(&dir).map_err(|error| failed(std::io::Error::other(error)))?;
    // One process fetches it, and the others wait.
    let kept = kept_file(&run_dir, image);
    let lock = File::create(kept.with_extension("lock")).map_err(failed)?;
    hold(&lock, image, progress).await.map_err(failed)?;
    if kept.exists() {
        return look_at(image, &kept);
    }
    let workshop = workshop(program).unwrap_or(&dir);
    for dir in [&*dir, workshop] {
        sweep(dir, &kept);
    }
    let random = random_hex::<6>().map_err(failed)?;
    let temporary = kept.with_extension(format!("{random}{TEMPORARY}"));
    let name = kept.with_extension(format!("{random}-build{TEMPORARY}"));
    let build = Build {
        into: temporary,
        workshop: workshop.join(name.file_name().unwrap_or_default()),
        lock: &lock,
    };
    make_private_dir(&build.workshop).map_err(|error| failed(std::io::Error::other(error)))?;
    fetch(program, settings, image, &build, progress).await?;
    fs::rename(&build.into, &kept).map_err(failed)?;
    look_at(image, &kept)
}

/// Waits for the lock of an image. Nothing is left to wait for it when this is dropped.
async fn hold(lock: &File, image: &ApptainerImage, progress: &ProgressSink) -> std::io::Result<()> {
    let mut is_reported = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        if !is_reported {
            is_reported = true;
            let what = format!("waiting for another process that fetches {}", image.as_str());
            progress.report(Progress::Starting { what });
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

/// Where an image is made. What is left there is removed when this is dropped.
#[derive(Debug)]
struct Build<'a> {
    /// The file to make.
    into: PathBuf,
    /// A directory for what it takes meanwhile.
    workshop: PathBuf,
    /// The lock of the image, which the program holds until it has ended: should this process be
    /// killed, the next one waits for that.
    lock: &'a File,
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        discard(&self.into);
        discard(&self.workshop);
    }
}

/// Returns where the user wants the program to work.
fn workshop(program: &ApptainerProgram) -> Option<&Path> {
    let named = program.environment.iter().find(|(name, _)| name == TEMPORARY_DIRECTORY);
    named.map(|(_, dir)| Path::new(dir)).filter(|dir| dir.is_absolute())
}

/// Removes what killed processes left of fetching the same image. Only for the holder of
/// its lock.
fn sweep(dir: &Path, kept: &Path) {
    let Some(stem) = kept.file_stem().and_then(|stem| stem.to_str()) else {
        return;
    };
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_prefix('.'));
        if rest.is_some_and(|rest| rest.strip_suffix(TEMPORARY).is_some()) {
            discard(&entry.path());
        }
    }
}

/// Removes a file or directory as far as that is possible; the next process tries again.
fn discard(path: &Path) {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_tree(path).map_err(|error| error.to_string()),
        Ok(_) => fs::remove_file(path).map_err(|error| error.to_string()),
        Err(_) => Ok(()),
    };
    if let Err(error) = removed {
        tracing::debug!(path = %path.display(), error, "left for later");
    }
}

/// Has the program fetch and convert an image into a file.
async fn fetch(
    program: &ApptainerProgram,
    settings: &Settings,
    image: &ApptainerImage,
    build: &Build<'_>,
    progress: &ProgressSink,
) -> Result<(), BackendError> {
    let name = image.as_str().to_owned();
    progress.report(Progress::Starting { what: format!("fetching the image {name}") });
    let caller = settings.environment();
    let variables = FETCH_VARIABLES.iter().filter_map(|name| {
        caller.non_empty(name).map(|value| (OsString::from(name), value.to_owned()))
    });
    let action = format!("run {}", program.path.display());
    // It reads nothing of it: the file is empty.
    let lock = build.lock.try_clone().map_err(BackendError::io(action.clone()))?;
    let mut command = program.command();
    command
        .args(["build", "--force"])
        .args([build.into.as_os_str(), name.as_ref()])
        .envs(variables)
        .env(TEMPORARY_DIRECTORY, &build.workshop)
        .env("SINGULARITY_TMPDIR", &build.workshop)
        .stdin(lock)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Signals of a terminal end this program, which ends that one.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = spawn_retrying(&mut command).await.map_err(BackendError::io(action.clone()))?;
    // Closes this process's copy of the lock.
    drop(command);
    let mut group = BuildGroup::of(&child);
    let mut printed = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut chunk = vec![0_u8; 8 << 10];
        loop {
            let count = stderr.read(&mut chunk).await.map_err(BackendError::io(action.clone()))?;
            if count == 0 {
                break;
            }
            printed.extend_from_slice(&chunk[..count]);
            // The end says what went wrong.
            let too_many = printed.len().saturating_sub(MAX_PRINTED);
            printed.drain(..too_many);
        }
    }
    let status = child.wait().await.map_err(BackendError::io(action))?;
    group.0 = None;
    if status.success() {
        progress.report(Progress::Pulled { image: name });
        return Ok(());
    }
    Err(BackendError::NoImage {
        image: name,
        reason: reason(&printed).unwrap_or_else(|| status.to_string()),
        advice: format!(
            "check the name and the network, log in with `apptainer registry login` if the \
             registry wants that, or set {} to a SIF file or a directory of this machine",
            SINGULARITY_IMAGE.name()
        ),
    })
}

/// The program that makes an image, and what it has started, all of which are killed when this is
/// dropped before the program has ended.
#[derive(Debug)]
struct BuildGroup(Option<Pid>);

impl BuildGroup {
    fn of(child: &tokio::process::Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }
}

impl Drop for BuildGroup {
    fn drop(&mut self) {
        // It has not been waited for, so its number is still its own.
        if let Some(group) = self.0 {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Returns the last lines of the program about a failure.
pub(super) fn reason(printed: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(printed);
    let is_about = |line: &&str| ["FATAL:", "ERROR:"].iter().any(|word| line.contains(word));
    let line = text
        .lines()
        .rfind(is_about)
        .or_else(|| text.lines().rfind(|line| !line.trim().is_empty()))?;
    let line = line.trim().trim_start_matches("FATAL:").trim_start_matches("ERROR:").trim();
    Some(line.chars().filter(|c| !c.is_control()).take(MAX_SHOWN).collect())
}

/// Returns an image of this machine, if it may be one.
fn look_at(image: &ApptainerImage, path: &Path) -> Result<LocalImage, BackendError> {
    let refuse = |reason: String| BackendError::NoImage {
        image: image.as_str().to_owned(),
        reason,
        advice: format!(
            "set {} to a SIF file, a directory with a root filesystem, or an address such as \
             docker://debian:12",
            SINGULARITY_IMAGE.name()
        ),
    };
    let path = fs::canonicalize(path).map_err(|error| refuse(error.to_string()))?;
    let found = fs::metadata(&path).map_err(|error| refuse(error.to_string()))?;
    let (device, inode) = (found.dev(), found.ino());
    let identity = if found.is_dir() {
        let is_root = ["bin", "usr"].iter().any(|name| path.join(name).symlink_metadata().is_ok());
        if !is_root {
            return Err(refuse("the directory holds no root filesystem: no /bin, no /usr".into()));
        }
        // What is in it may change, as in every directory that is a lower layer.
        format!("directory:{device}:{inode}")
    } else if found.is_file() {
        File::open(&path).map_err(|error| refuse(error.to_string()))?;
        format!("file:{device}:{inode}:{}:{}.{}", found.size(), found.mtime(), found.mtime_nsec())
    } else {
        let kind = found.permissions().mode() >> 12;
        return Err(refuse(format!("it is neither a file nor a directory (type {kind:o})")));
    };
    Ok(LocalImage { path, identity })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(path: &Path) -> ApptainerImage {
        ApptainerImage::parse(path.to_str().unwrap()).unwrap()
    }

    #[test]
    fn another_file_is_another_image_and_a_directory_needs_a_system() {
        let dir = tempfile::tempdir().unwrap();
        let sif = dir.path().join("a.sif");
        let find = |path: &Path| find(&image(path), None, dir.path());
        assert!(find(&sif).unwrap_err().to_string().contains("No such file"));
        fs::write(&sif, "one").unwrap();
        let one = find(&sif).unwrap().unwrap();
        assert_eq!(find(&sif).unwrap().unwrap(), one);
        fs::write(&sif, "another").unwrap();
        assert_ne!(find(&sif).unwrap().unwrap().identity, one.identity);
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        assert!(find(&root).unwrap_err().advice().is_some());
        fs::create_dir(root.join("bin")).unwrap();
        assert!(find(&root).unwrap().unwrap().identity.starts_with("directory:"));
    }

    #[test]
    fn the_reason_is_the_last_thing_that_went_wrong() {
        let printed = b"INFO: Starting\nFATAL:   While performing build: no\nINFO: end\n";
        assert_eq!(reason(printed).as_deref(), Some("While performing build: no"));
        assert_eq!(reason(b"boom\n\n").as_deref(), Some("boom"));
        assert_eq!(reason(b""), None);
    }
}
