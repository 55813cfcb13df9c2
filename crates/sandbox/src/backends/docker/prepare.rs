//! Facts about an image and an engine that are needed before a container is
//! created, and the cache that keeps them.

use std::path::{Path, PathBuf};

use crate::settings::DockerTransport;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::api::{EngineClient, ImageInfo};
use super::backend::Docker;
use super::helper::{HelperError, HelperProgram, HelperRequest};
use super::images::KnownUser;
use super::plan::{IO_DIR, ImageUser};
use super::settings::DockerSettings;
use crate::HomeId;
use crate::backend::BackendError;
use crate::key::hex;
use crate::store::{make_private_dir, read_versioned, write_versioned};

/// Mount point, in the helper container, of the home to fill.
const HOME_TO_FILL: &str = "/.vestal/home";

/// Name of the file by which a container proves that it sees the host's files.
const PROOF: &str = "prepared.json";

/// Home of users whose own home must not be mounted over.
const FALLBACK_HOME: &str = "/home/vestal";

/// Directories that must not be mounted over, with everything below them.
const RESERVED_TREES: [&str; 14] = [
    "/.vestal", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run",
    "/sbin", "/sys", "/tmp", "/usr",
];

/// Directories that must not be mounted over themselves.
const RESERVED_DIRS: [&str; 7] = ["/", "/home", "/mnt", "/opt", "/srv", "/var", "/var/tmp"];

/// Whether the engine sees the files of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Sharing {
    /// It does: directories are mounted.
    Shared,
    /// It does not: files are in volumes.
    #[serde(rename = "Apart")]
    Separate,
}

/// What the preparation found out.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub(super) sharing: Sharing,
    pub(super) user: ImageUser,
    /// The user that was looked up; `None` for root.
    requested: Option<String>,
}

impl Prepared {
    /// Returns the user of jobs, so that a copy need not look it up.
    pub(super) fn known_user(&self) -> KnownUser {
        KnownUser { requested: self.requested.clone(), user: self.user.clone() }
    }
}

/// What the preparation works with.
#[derive(Debug)]
pub(super) struct PrepareInput<'a> {
    /// The profile home.
    pub(super) home: &'a HomeId,
    /// The guest's program.
    pub(super) program: &'a Path,
    /// The directory of the guest's socket.
    pub(super) io: &'a Path,
    /// The directory that becomes the home of jobs, if it is to be filled from
    /// the image.
    pub(super) home_dir: Option<&'a Path>,
    /// The directory of all sandboxes.
    pub(super) sandboxes: &'a Path,
    /// The user of jobs, if known. The files of a copied system may have changed
    /// since its image was made.
    pub(super) known: Option<&'a KnownUser>,
}

/// The guest's report on the image's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UserReport {
    uid: u32,
    gid: u32,
    name: Option<String>,
    home: String,
}

impl Docker {
    /// Finds out what has to be known, from the cache where possible.
    pub(super) async fn prepare(
        &self,
        client: &EngineClient,
        settings: &DockerSettings,
        image: &ImageInfo,
        input: &PrepareInput<'_>,
    ) -> Result<Prepared, BackendError> {
        let user = match settings.host_user {
            Some(host) => Some(format!("{}:{}", host.uid, host.gid)),
            None => settings.extra_args.user.clone().or_else(|| image.user.clone()),
        };
        let engine = &client.info().await?.id;
        let sandboxes = input.sandboxes.to_string_lossy();
        let about_sharing = ["reach", engine, client.address(), &*sandboxes];
        let about_user = ["user", &*image.id, user.as_deref().unwrap_or_default()];
        let mut sharing = match (settings.transport, client.is_remote()) {
            _ if self.is_behind_streams() => Some(Sharing::Separate),
            (DockerTransport::Exec, _) | (DockerTransport::Auto, true) => Some(Sharing::Separate),
            (DockerTransport::Socket, _) => Some(Sharing::Shared),
            (DockerTransport::Auto, false) => self.cache.get(&about_sharing),
        };
        let known = input.known.filter(|known| known.requested == user);
        let known = known.map(|known| UserReport::from(known.user.clone()));
        let mut report: Option<UserReport> = known.clone().or_else(|| self.cache.get(&about_user));
        let mut fill = input.home_dir.filter(|dir| is_empty(dir));
        if sharing == Some(Sharing::Separate) {
            // The engine itself fills a new volume from the image.
            fill = None;
        }
        let request = HelperRequest { home: input.home, image: &image.id, user: user.as_deref() };
        if sharing != Some(Sharing::Separate)
            && (sharing.is_none() || report.is_none() || fill.is_some())
        {
            match self.prepare_shared(client, request, input, fill).await {
                Ok((found, shared)) => {
                    report = known.clone().or(Some(found));
                    sharing.get_or_insert(if shared { Sharing::Shared } else { Sharing::Separate });
                }
                Err(HelperError::NotShared) if sharing.is_none() => {
                    sharing = Some(Sharing::Separate);
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let report = match report {
            Some(report) => report,
            None => self.prepare_separate(client, request).await.map_err(failed)?,
        };
        let sharing = sharing.unwrap_or(Sharing::Separate);
        if settings.transport == DockerTransport::Auto && !client.is_remote() {
            self.cache.put(&about_sharing, &sharing);
        }
        if known.is_none() {
            self.cache.put(&about_user, &report);
        }
        Ok(Prepared { sharing, user: report.into_user(), requested: user })
    }

    /// Inspects the image from a container with directories of this host. Also
    /// returns whether the container saw those directories.
    async fn prepare_shared(
        &self,
        client: &EngineClient,
        request: HelperRequest<'_>,
        input: &PrepareInput<'_>,
        fill: Option<&Path>,
    ) -> Result<(UserReport, bool), HelperError> {
        let proof = input.io.join(PROOF);
        std::fs::remove_file(&proof).ok();
        let mut args = request.args();
        args.extend(["--report".to_owned(), format!("{IO_DIR}/{PROOF}")]);
        let mut mounts = vec![(input.io, IO_DIR)];
        if let Some(dir) = fill {
            args.extend(["--fill".to_owned(), HOME_TO_FILL.to_owned()]);
            mounts.push((dir, HOME_TO_FILL));
        }
        let output = self
            .run_helper(client, request, args, mounts, HelperProgram::Guest(input.program))
            .await?;
        let seen = std::fs::read_to_string(&proof).unwrap_or_default();
        std::fs::remove_file(&proof).ok();
        Ok((UserReport::parse(&output)?, !output.is_empty() && seen.trim() == output))
    }

    async fn prepare_separate(
        &self,
        client: &EngineClient,
        request: HelperRequest<'_>,
    ) -> Result<UserReport, HelperError> {
        let guest = self.guest_of_engine(client).await?;
        let program = HelperProgram::UploadedGuest(&guest);
        let output = self.run_helper(client, request, request.args(), Vec::new(), program).await?;
        UserReport::parse(&output)
    }
}

impl From<ImageUser> for UserReport {
    fn from(user: ImageUser) -> Self {
        Self { uid: user.uid, gid: user.gid, name: user.name, home: user.home }
    }
}

impl UserReport {
    fn parse(output: &str) -> Result<Self, HelperError> {
        serde_json::from_str(output).map_err(|_| {
            HelperError::Failed(format!(
                "the helper printed an unexpected report: {}",
                output.chars().take(200).collect::<String>()
            ))
        })
    }

    fn into_user(self) -> ImageUser {
        let home = if can_hold_home(&self.home) { self.home } else { FALLBACK_HOME.to_owned() };
        ImageUser { uid: self.uid, gid: self.gid, name: self.name, home }
    }
}

/// Returns whether the sandbox's home can be mounted at the home that the image
/// names. Some images give their users a home in a system directory.
fn can_hold_home(home: &str) -> bool {
    let path = PathBuf::from(home);
    let plain = path.is_absolute()
        && home.len() < 1024
        && !home.contains(|c: char| c.is_control())
        && path.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)))
        // In its shortest form, so that it can be compared with other paths.
        && path.components().collect::<PathBuf>().as_os_str() == home;
    plain
        && !RESERVED_TREES.iter().any(|taken| path.starts_with(taken))
        && !RESERVED_DIRS.contains(&home)
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn failed(error: HelperError) -> BackendError {
    match error {
        HelperError::Backend(error) => error,
        other => BackendError::Engine {
            action: "inspect the image from inside".to_owned(),
            message: other.to_string(),
        },
    }
}

/// Version of the cache's files.
const VERSION: u64 = 1;

/// A directory of small files, one per fact about an engine or image that does not
/// change. An entry that cannot be read or written is determined again.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    dir: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct CachedFact<T> {
    version: u64,
    about: Vec<String>,
    known: T,
}

impl Cache {
    pub(super) fn new(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("docker") }
    }

    pub(super) fn get<T: for<'de> Deserialize<'de>>(&self, about: &[&str]) -> Option<T> {
        let entry: CachedFact<T> = read_versioned(&self.path(about), VERSION).ok()??;
        (entry.about == about).then_some(entry.known)
    }

    pub(super) fn put<T: Serialize>(&self, about: &[&str], known: &T) {
        let entry = CachedFact {
            version: VERSION,
            about: about.iter().map(|part| (*part).to_owned()).collect(),
            known,
        };
        let written =
            make_private_dir(&self.dir).and_then(|()| write_versioned(&self.path(about), &entry));
        if let Err(error) = written {
            tracing::debug!(%error, "not cached");
        }
    }

    fn path(&self, about: &[&str]) -> PathBuf {
        let mut hasher = Sha256::new();
        for part in about {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        self.dir.join(format!("{}.json", hex(&hasher.finalize()[..12])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_in_a_system_directory_is_not_mounted_over() {
        for home in ["/root", "/home/app", "/opt/app", "/var/lib/x", "/app", "/workspace"] {
            assert!(can_hold_home(home), "{home}");
        }
        for home in [
            "/",
            "",
            "relative",
            "/usr/sbin",
            "/bin",
            "/home",
            "/.vestal/x",
            "/a/../etc",
            "/a//b",
            "/a/",
            "/run/x",
            "/x\ny",
        ] {
            assert!(!can_hold_home(home), "{home}");
        }
    }

    #[test]
    fn a_user_without_a_home_gets_one() {
        let nobody = UserReport { uid: 1234, gid: 0, name: None, home: "/".into() };
        assert_eq!(nobody.into_user().home, FALLBACK_HOME);
    }

    #[test]
    fn an_entry_is_read_back_and_a_damaged_one_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path());
        assert_eq!(cache.get::<bool>(&["a", "b"]), None);
        cache.put(&["a", "b"], &true);
        assert_eq!(cache.get::<bool>(&["a", "b"]), Some(true));
        assert_eq!(cache.get::<bool>(&["ab", ""]), None);
        let file = std::fs::read_dir(dir.path().join("docker")).unwrap().next().unwrap().unwrap();
        std::fs::write(file.path(), "{").unwrap();
        assert_eq!(cache.get::<bool>(&["a", "b"]), None);
    }
}
