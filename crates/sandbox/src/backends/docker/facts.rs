//! What has to be known of an image and an engine before a container is made.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::api::{Client, ImageFacts};
use super::backend::Docker;
use super::errand::{self, Errand, ErrandError, Runner};
use super::origin::KnownUser;
use super::plan::{IO_DIR, JobUser, Ulimits};
use super::settings::DockerSettings;
use crate::HomeId;
use crate::backend::BackendError;
use crate::settings::DockerTransport;

/// Where the home to fill is mounted for the errand.
const HOME_TO_FILL: &str = "/.vestal/home";

/// Name of the file by which a container proves that it shares a directory.
const PROOF: &str = "prepared.json";

/// Home of users whose own is no place to put files.
const SPARE_HOME: &str = "/home/vestal";

/// Places that are not covered with a home, with all that is below them.
const TAKEN: [&str; 14] = [
    "/.vestal", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run",
    "/sbin", "/sys", "/tmp", "/usr",
];

/// Places that are not covered themselves.
const TOO_WIDE: [&str; 7] = ["/", "/home", "/mnt", "/opt", "/srv", "/var", "/var/tmp"];

/// Whether engine and program see the same files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reach {
    /// They do: files are mounted.
    Shared,
    /// They do not: files are volumes.
    Apart,
}

/// What was found out.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) reach: Reach,
    pub(super) user: JobUser,
    /// Who was looked up; absent: root.
    asked: Option<String>,
}

impl Facts {
    /// Returns who jobs run as, to be known without looking.
    pub(super) fn known_user(&self) -> KnownUser {
        KnownUser { asked: self.asked.clone(), user: self.user.clone() }
    }
}

/// Directories of the host that belong to the instance to be made.
#[derive(Debug)]
pub(super) struct Ground<'a> {
    /// The home it is made for.
    pub(super) home: &'a HomeId,
    /// The guest's program.
    pub(super) program: &'a Path,
    /// The directory of the guest's socket.
    pub(super) io: &'a Path,
    /// The directory that becomes the home of jobs, if it is to be kept.
    pub(super) home_dir: Option<&'a Path>,
    /// Where sandboxes keep their files.
    pub(super) sandboxes: &'a Path,
    /// The user of jobs, where that is known: what a copy of a system says now
    /// may not be what its image said.
    pub(super) known: Option<&'a KnownUser>,
}

/// What the guest reports of the image's user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Surveyed {
    uid: u32,
    gid: u32,
    name: Option<String>,
    home: String,
}

impl Docker {
    /// Finds out what has to be known, from memory where possible.
    pub(super) async fn facts(
        &self,
        client: &Client,
        settings: &DockerSettings,
        image: &ImageFacts,
        ground: &Ground<'_>,
    ) -> Result<Facts, BackendError> {
        let user = match settings.host_user {
            Some(host) => Some(format!("{}:{}", host.uid, host.gid)),
            None => settings.extra_args.user.clone().or_else(|| image.user.clone()),
        };
        let engine = &client.info().await?.id;
        let sandboxes = ground.sandboxes.to_string_lossy();
        let about_reach = ["reach", engine, client.address(), &*sandboxes];
        let about_user = ["user", &*image.id, user.as_deref().unwrap_or_default()];
        let mut reach = match (settings.transport, client.is_remote()) {
            (DockerTransport::Exec, _) | (DockerTransport::Auto, true) => Some(Reach::Apart),
            (DockerTransport::Socket, _) => Some(Reach::Shared),
            (DockerTransport::Auto, false) => self.cache.get(&about_reach),
        };
        let known = ground.known.filter(|known| known.asked == user);
        let known = known.map(|known| Surveyed::from(known.user.clone()));
        let mut surveyed: Option<Surveyed> = known.clone().or_else(|| self.cache.get(&about_user));
        let mut fill = ground.home_dir.filter(|dir| is_empty(dir));
        if reach == Some(Reach::Apart) {
            // The engine itself fills a new volume from the image.
            fill = None;
        }
        let request = Request { home: ground.home, image: &image.id, user: user.as_deref() };
        if reach != Some(Reach::Apart) && (reach.is_none() || surveyed.is_none() || fill.is_some())
        {
            match self.prepare_shared(client, request, ground, fill).await {
                Ok((found, shared)) => {
                    surveyed = known.clone().or(Some(found));
                    reach.get_or_insert(if shared { Reach::Shared } else { Reach::Apart });
                }
                Err(ErrandError::NotShared) if reach.is_none() => reach = Some(Reach::Apart),
                Err(error) => return Err(failed(error)),
            }
        }
        let surveyed = match surveyed {
            Some(surveyed) => surveyed,
            None => self.prepare_apart(client, request).await.map_err(failed)?,
        };
        let reach = reach.unwrap_or(Reach::Apart);
        if settings.transport == DockerTransport::Auto && !client.is_remote() {
            self.cache.put(&about_reach, &reach);
        }
        if known.is_none() {
            self.cache.put(&about_user, &surveyed);
        }
        Ok(Facts { reach, user: surveyed.into_user(), asked: user })
    }

    /// Looks into the image from a container that is given directories of this
    /// host. Returns also whether it saw the same directories.
    async fn prepare_shared(
        &self,
        client: &Client,
        request: Request<'_>,
        ground: &Ground<'_>,
        fill: Option<&Path>,
    ) -> Result<(Surveyed, bool), ErrandError> {
        let proof = ground.io.join(PROOF);
        std::fs::remove_file(&proof).ok();
        let mut words = request.words();
        words.extend(["--report".to_owned(), format!("{IO_DIR}/{PROOF}")]);
        let mut mounts = vec![(ground.io, IO_DIR)];
        if let Some(dir) = fill {
            words.extend(["--fill".to_owned(), HOME_TO_FILL.to_owned()]);
            mounts.push((dir, HOME_TO_FILL));
        }
        let said =
            self.errand(client, request, words, mounts, Runner::Guest(ground.program)).await?;
        let seen = std::fs::read_to_string(&proof).unwrap_or_default();
        std::fs::remove_file(&proof).ok();
        Ok((Surveyed::parse(&said)?, !said.is_empty() && seen.trim() == said))
    }

    async fn prepare_apart(
        &self,
        client: &Client,
        request: Request<'_>,
    ) -> Result<Surveyed, ErrandError> {
        let guest = self.guest_of_engine(client).await?;
        let runner = Runner::SentGuest(&guest);
        let said = self.errand(client, request, request.words(), Vec::new(), runner).await?;
        Surveyed::parse(&said)
    }

    /// Does an errand as root, with explicit limits where the engine needs them.
    pub(super) async fn errand(
        &self,
        client: &Client,
        request: Request<'_>,
        words: Vec<String>,
        mounts: Vec<(&Path, &str)>,
        program: Runner<'_>,
    ) -> Result<String, ErrandError> {
        let Request { home, image, .. } = request;
        let ulimits = self.ulimits(client).await?;
        let mut errand = Errand { home, image, user: "0:0", words, mounts, program, ulimits };
        match errand::run(client, &errand).await {
            Err(ErrandError::Rlimit) if errand.ulimits.is_none() => {
                errand.ulimits = Some(self.remember_ulimits(client).await?);
                errand::run(client, &errand).await
            }
            other => other,
        }
    }

    /// Returns the limits of processes to give explicitly, if this engine is
    /// known to need them.
    pub(super) async fn ulimits(&self, client: &Client) -> Result<Option<Ulimits>, BackendError> {
        let engine = &client.info().await?.id;
        Ok(self.cache.get::<bool>(&["ulimits", engine]).map(|_| Ulimits::within_reach()))
    }

    /// Remembers that this engine cannot set limits of processes by itself.
    pub(super) async fn remember_ulimits(&self, client: &Client) -> Result<Ulimits, BackendError> {
        let engine = &client.info().await?.id;
        self.cache.put(&["ulimits", engine], &true);
        Ok(Ulimits::within_reach())
    }
}

/// What is to be prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) home: &'a HomeId,
    pub(super) image: &'a str,
    pub(super) user: Option<&'a str>,
}

impl Request<'_> {
    fn words(&self) -> Vec<String> {
        let mut words = vec!["prepare".to_owned()];
        if let Some(user) = self.user {
            words.extend(["--user".to_owned(), user.to_owned()]);
        }
        words
    }
}

impl From<JobUser> for Surveyed {
    fn from(user: JobUser) -> Self {
        Self { uid: user.uid, gid: user.gid, name: user.name, home: user.home }
    }
}

impl Surveyed {
    fn parse(said: &str) -> Result<Self, ErrandError> {
        serde_json::from_str(said).map_err(|_| {
            ErrandError::Failed(format!(
                "it said something unexpected: {}",
                said.chars().take(200).collect::<String>()
            ))
        })
    }

    fn into_user(self) -> JobUser {
        let home = if is_place_for_files(&self.home) { self.home } else { SPARE_HOME.to_owned() };
        JobUser { uid: self.uid, gid: self.gid, name: self.name, home }
    }
}

/// Returns whether a home of the image can be covered with the sandbox's. The
/// image says where it is, and some of its users are at home in the system.
fn is_place_for_files(home: &str) -> bool {
    let path = PathBuf::from(home);
    let plain = path.is_absolute()
        && home.len() < 1024
        && !home.contains(|c: char| c.is_control())
        && path.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)))
        // Written in its shortest form, so that it can be compared with others.
        && path.components().collect::<PathBuf>().as_os_str() == home;
    plain && !TAKEN.iter().any(|taken| path.starts_with(taken)) && !TOO_WIDE.contains(&home)
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

fn failed(error: ErrandError) -> BackendError {
    match error {
        ErrandError::Backend(error) => error,
        other => BackendError::Engine {
            action: "look into the image".to_owned(),
            message: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_in_the_system_is_not_covered() {
        for home in ["/root", "/home/app", "/opt/app", "/var/lib/x", "/app", "/workspace"] {
            assert!(is_place_for_files(home), "{home}");
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
            assert!(!is_place_for_files(home), "{home}");
        }
    }

    #[test]
    fn a_user_without_a_home_gets_one() {
        let nobody = Surveyed { uid: 1234, gid: 0, name: None, home: "/".into() };
        assert_eq!(nobody.into_user().home, SPARE_HOME);
    }
}
