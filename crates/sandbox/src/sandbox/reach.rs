//! What of the host the commands of a sandbox can get at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_recursion::async_recursion as boxed;
use vestal_config::AnyKey as _;

use super::Sandbox;
use crate::backend::{Confinement, WORKSPACE};
use crate::overrides::{BINDS, binds_from_spec};
use crate::settings::{ExtraArgs, MountKind, Volume, VolumeSource, keys};
use crate::spec::UNKNOWN_SETTINGS;

/// What of the host the commands of a sandbox can get at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Everything: nothing confines them.
    Host,
    /// They are confined, but for these.
    Mounts(Vec<Opening>),
    /// Nothing: they are in a system of their own.
    Contained,
}

/// A way from a confined sandbox to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// A file or directory of the host is mounted.
    Mount {
        /// Where it is on the host.
        host: PathBuf,
        /// Where it is in the sandbox.
        target: PathBuf,
        /// Whether it cannot be changed.
        read_only: bool,
    },
    /// Something makes the confinement less of a wall, in words.
    Weakness(String),
}

impl Sandbox {
    /// Returns what of the host its commands can get at. What the instance was
    /// made with counts, not what the settings have come to say since.
    #[boxed]
    pub async fn reach(&self) -> Reach {
        let (backend, record, overrides) = self.handle.made().await;
        let weakened = backend.describe(&record.locator).weakened;
        let home = self.handle.engine.settings.environment().user_home();
        let reach = reach(backend.confinement(), &record.spec, weakened, home.as_deref());
        match (reach, overrides.mount) {
            // The directory was asked for, and a record that does not show it is of no use here.
            (Reach::Contained, Some(mount)) => Reach::Mounts(vec![workspace(&mount)]),
            (reach, _) => reach,
        }
    }

    /// Returns the directory of the sandbox's own files, as its commands see it.
    #[boxed]
    pub async fn workspace(&self) -> PathBuf {
        let (backend, record, _) = self.handle.made().await;
        match backend.confinement() {
            // Commands see the host's files, and the sandbox's own are beside
            // what is recorded of it.
            Confinement::None => {
                let key = self.handle.key();
                self.handle.engine.dir(key).workspace()
            }
            Confinement::Contained | Confinement::Remote => {
                (backend.declaration().workspace)(&record.locator)
            }
        }
    }

    /// Returns whether nobody chose the backend: the settings leave it open,
    /// and nothing else was asked for this sandbox.
    #[boxed]
    pub async fn is_backend_automatic(&self) -> bool {
        let (_, _, overrides) = self.handle.made().await;
        // With a setting that cannot be read nobody has chosen anything.
        matches!(self.handle.engine.named_backend(&overrides), Ok(None) | Err(_))
    }
}

fn reach(
    confinement: Confinement,
    made: &BTreeMap<String, String>,
    weakened: Vec<String>,
    user_home: Option<&Path>,
) -> Reach {
    if confinement == Confinement::None {
        return Reach::Host;
    }
    let mut openings = Vec::new();
    if made.contains_key(UNKNOWN_SETTINGS) {
        openings.push(Opening::Weakness("its original settings are unknown".to_owned()));
    }
    openings.extend(
        made.get(keys::DOCKER_MOUNT_CWD_TO_WORKSPACE.name())
            .map(|mount| workspace(Path::new(mount))),
    );
    openings.extend(binds(made));
    openings.extend(volumes(made, user_home));
    let mut weaknesses = weakened;
    let extra = extra_args(made);
    openings.extend(extra.as_ref().map(|extra| mounts(extra, user_home)).unwrap_or_default());
    match extra {
        Some(extra) => weaknesses.extend(extra.weakens()),
        None => weaknesses.push("its extra arguments cannot be read".to_owned()),
    }
    weaknesses.sort();
    weaknesses.dedup();
    openings.extend(weaknesses.into_iter().map(Opening::Weakness));
    if openings.is_empty() { Reach::Contained } else { Reach::Mounts(openings) }
}

fn workspace(mount: &Path) -> Opening {
    Opening::Mount { host: mount.to_owned(), target: WORKSPACE.into(), read_only: false }
}

fn binds(made: &BTreeMap<String, String>) -> Vec<Opening> {
    let Some(binds) = binds_from_spec(made.get(BINDS)) else {
        return vec![Opening::Weakness("its directories cannot be read".to_owned())];
    };
    let opening =
        |bind: PathBuf| Opening::Mount { host: bind.clone(), target: bind, read_only: false };
    binds.into_iter().map(opening).collect()
}

fn texts(made: &BTreeMap<String, String>, key: &str) -> Option<Vec<String>> {
    made.get(key).map_or_else(|| Some(Vec::new()), |list| serde_json::from_str(list).ok())
}

fn extra_args(made: &BTreeMap<String, String>) -> Option<ExtraArgs> {
    texts(made, keys::DOCKER_EXTRA_ARGS.name()).and_then(ExtraArgs::from_words)
}

fn volumes(made: &BTreeMap<String, String>, user_home: Option<&Path>) -> Vec<Opening> {
    let Some(specs) = texts(made, keys::DOCKER_VOLUMES.name()) else {
        return vec![Opening::Weakness("its mounts cannot be read".to_owned())];
    };
    let opening = |spec: String| match Volume::parse(&spec) {
        Ok(Volume { source: VolumeSource::Named(_), .. }) => None,
        Ok(Volume { source: VolumeSource::Host(path), target, read_only, .. }) => {
            let host = path.resolve(user_home).unwrap_or_else(|| path.as_str().to_owned());
            Some(Opening::Mount { host: host.into(), target: target.into(), read_only })
        }
        Err(_) => Some(Opening::Weakness(format!("the mount {spec} cannot be read"))),
    };
    specs.into_iter().filter_map(opening).collect()
}

fn mounts(extra: &ExtraArgs, user_home: Option<&Path>) -> Vec<Opening> {
    let opening = |mount: &crate::settings::MountFlag| match &mount.kind {
        MountKind::Bind { source, .. } => {
            let host = source.resolve(user_home).unwrap_or_else(|| source.as_str().to_owned());
            let target = mount.target.as_str().into();
            Some(Opening::Mount { host: host.into(), target, read_only: mount.read_only })
        }
        MountKind::Volume { .. } | MountKind::Tmpfs { .. } => None,
    };
    extra.mounts.iter().filter_map(opening).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(values: &[(&str, &str)]) -> BTreeMap<String, String> {
        values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn of(values: &[(&str, &str)]) -> Reach {
        reach(Confinement::Contained, &made(values), Vec::new(), Some(Path::new("/home/me")))
    }

    fn mount(host: &str, target: &str, read_only: bool) -> Opening {
        Opening::Mount { host: host.into(), target: target.into(), read_only }
    }

    #[test]
    fn without_confinement_everything_is_within_reach() {
        assert_eq!(reach(Confinement::None, &made(&[]), Vec::new(), None), Reach::Host);
    }

    #[test]
    fn a_container_without_openings_reaches_nothing() {
        assert_eq!(of(&[]), Reach::Contained);
        let harmless = [
            ("terminal.docker_network", "false"),
            ("terminal.docker_volumes", r#"["cache:/cache"]"#),
            (
                "terminal.docker_extra_args",
                r#"["--shm-size", "1g", "--mount", "type=tmpfs,dst=/m"]"#,
            ),
        ];
        assert_eq!(of(&harmless), Reach::Contained);
    }

    #[test]
    fn mounted_places_of_the_host_are_named() {
        let values = [
            ("binds", r#"["/srv/one","/srv/two"]"#),
            ("terminal.docker_mount_cwd_to_workspace", "/srv/project"),
            ("terminal.docker_volumes", r#"["~/src:/src:ro","/a:/b"]"#),
            ("terminal.docker_extra_args", r#"["--mount", "type=bind,src=/c,dst=/d"]"#),
        ];
        let expected = vec![
            mount("/srv/project", "/workspace", false),
            mount("/srv/one", "/srv/one", false),
            mount("/srv/two", "/srv/two", false),
            mount("/home/me/src", "/src", true),
            mount("/a", "/b", false),
            mount("/c", "/d", false),
        ];
        assert_eq!(of(&values), Reach::Mounts(expected));
    }

    #[test]
    fn weakened_isolation_is_within_reach_of_the_host() {
        let privileged = [("terminal.docker_extra_args", r#"["--privileged", "--pid=host"]"#)];
        let weakness = |text: &str| Opening::Weakness(text.to_owned());
        assert_eq!(
            of(&privileged),
            Reach::Mounts(vec![weakness("--pid host"), weakness("--privileged")])
        );
        let recorded = vec!["--gpus all".to_owned()];
        assert_eq!(
            reach(Confinement::Contained, &made(&[]), recorded, None),
            Reach::Mounts(vec![weakness("--gpus all")])
        );
    }

    #[test]
    fn what_cannot_be_known_counts_as_an_opening() {
        for (key, value) in [
            (UNKNOWN_SETTINGS, "0123"),
            ("terminal.docker_volumes", "rubbish"),
            ("terminal.docker_volumes", r#"["rubbish"]"#),
            ("terminal.docker_extra_args", "rubbish"),
            ("terminal.docker_extra_args", r#"["--rubbish"]"#),
        ] {
            assert!(matches!(of(&[(key, value)]), Reach::Mounts(_)), "{key}={value}");
        }
    }
}
