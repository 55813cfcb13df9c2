//! The settings that shape containers.

use std::path::PathBuf;
use std::time::Duration;

use vestal_config::{AnyKey as _, ConfigError, InvalidValue, Settings, ValueSource};

use super::keys::contradictions;
use super::{DockerTransport, ExtraArgs, ImageName};
use crate::backends::own_system::{self, Shaping, flag};
use crate::backends::own_system::{ResourceLimits, start_dir};
use crate::settings::{Volumes, keys};
use crate::spec::{Comparison, Tightening};
use crate::{Overrides, Spec};

/// The settings that shape a container, read once for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) struct DockerSettings {
    /// The image.
    pub image: ImageName,
    /// What the user mounts.
    pub volumes: Volumes,
    /// What else the user tells the engine.
    pub extra_args: ExtraArgs,
    /// Whether there is a network.
    pub network: bool,
    /// The user of this process, where jobs are to run as that one.
    pub host_user: Option<HostUser>,
    /// Whether the image's ENTRYPOINT is kept.
    pub keep_entrypoint: bool,
    /// How the guest is reached.
    pub transport: DockerTransport,
    /// What it may use.
    pub limits: ResourceLimits,
    /// Whether workspace and home are kept on disk.
    pub persistent: bool,
    /// The directory of the host that is the workspace.
    pub mount: Option<PathBuf>,
    /// Directories of the host that are in the container at the same path.
    pub binds: Vec<PathBuf>,
    /// Where commands start, unless that is the workspace.
    pub cwd: Option<PathBuf>,
    /// The time jobs have between being asked to end and being killed.
    pub stop_grace: Duration,
    /// The user's home on this machine, for sources that begin with `~`.
    pub user_home: Option<PathBuf>,
    /// What the settings say that cannot be had at once.
    pub contradictions: Vec<String>,
}

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends::docker) struct HostUser {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

impl HostUser {
    /// Returns the user of this process.
    fn current() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

impl DockerSettings {
    /// Reads the settings, with what is asked for one sandbox alone on top.
    pub(in crate::backends::docker) fn read(
        settings: &Settings,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let as_host_user = settings.get(&keys::DOCKER_RUN_AS_HOST_USER)?.value;
        Ok(Self {
            image: image(settings, overrides)?,
            volumes: settings.get(&keys::DOCKER_VOLUMES)?.value.and(&overrides.volumes),
            extra_args: settings.get(&keys::DOCKER_EXTRA_ARGS)?.value,
            network: settings.get(&keys::DOCKER_NETWORK)?.value,
            host_user: as_host_user.then(HostUser::current),
            keep_entrypoint: settings.get(&keys::DOCKER_KEEP_ENTRYPOINT)?.value,
            transport: settings.get(&keys::DOCKER_TRANSPORT)?.value,
            limits: ResourceLimits::read(settings)?,
            persistent: settings.get(&keys::CONTAINER_PERSISTENT)?.value,
            mount: overrides.mount.clone(),
            binds: overrides.binds.clone(),
            cwd: start_dir(settings, overrides)?,
            stop_grace: settings.get(&keys::STOP_GRACE_SECONDS)?.value.duration(),
            user_home: settings.environment().user_home(),
            contradictions: contradictions(settings)?,
        })
    }

    /// Returns what containers have in common with other sandboxes.
    fn shaping(&self) -> Shaping<'_> {
        Shaping {
            volumes: &self.volumes,
            network: self.network,
            mount: self.mount.as_deref(),
            binds: &self.binds,
            persistent: self.persistent,
            limits: self.limits,
        }
    }

    /// Returns what shapes a container and is not the default.
    pub(in crate::backends::docker) fn spec(&self) -> Spec {
        let json = |list: Vec<String>| serde_json::Value::from(list).to_string();
        let words = self.extra_args.words().to_vec();
        let image = (self.image != *keys::DOCKER_IMAGE.default_value())
            .then(|| self.image.as_str().to_owned());
        let user = self.host_user.map(|user| format!("{}:{}", user.uid, user.gid));
        let transport = (self.transport != *keys::DOCKER_TRANSPORT.default_value())
            .then(|| self.transport.as_str().to_owned());
        let values = [
            (keys::DOCKER_IMAGE.name(), image),
            (keys::DOCKER_EXTRA_ARGS.name(), (!words.is_empty()).then(|| json(words))),
            (keys::DOCKER_RUN_AS_HOST_USER.name(), user),
            (
                keys::DOCKER_KEEP_ENTRYPOINT.name(),
                flag(self.keep_entrypoint, *keys::DOCKER_KEEP_ENTRYPOINT.default_value()),
            ),
            (keys::DOCKER_TRANSPORT.name(), transport),
        ];
        let values = values.into_iter().filter_map(|(key, value)| value.map(|value| (key, value)));
        values
            .chain(self.shaping().to_spec())
            .fold(Spec::default(), |spec, (key, value)| spec.with(key, &value, tightening(key)))
    }
}

/// Returns the rule for a setting that shapes containers.
pub(in crate::backends::docker) fn tightening(key: &str) -> Tightening {
    let any = [keys::DOCKER_RUN_AS_HOST_USER.name(), keys::DOCKER_KEEP_ENTRYPOINT.name()];
    if any.contains(&key) {
        Tightening::Any
    } else if key == keys::DOCKER_EXTRA_ARGS.name() {
        Tightening::Compared(Comparison(words_may_isolate_more))
    } else {
        own_system::tightening(key)
    }
}

/// Compares words for the engine, as they are written in a spec. Words that cannot be read may
/// mean anything.
fn words_may_isolate_more(was: Option<&str>, now: Option<&str>) -> bool {
    let read = |text: Option<&str>| match text {
        None => Some(ExtraArgs::EMPTY),
        Some(text) => serde_json::from_str(text).ok().and_then(ExtraArgs::from_words),
    };
    match (read(was), read(now)) {
        (Some(was), Some(now)) => now.may_isolate_more_than(&was),
        (None, _) | (_, None) => true,
    }
}

fn image(settings: &Settings, overrides: &Overrides) -> Result<ImageName, ConfigError> {
    let Some(image) = &overrides.image else {
        return Ok(settings.get(&keys::DOCKER_IMAGE)?.value);
    };
    ImageName::new(image).map_err(|reason| {
        let key = keys::DOCKER_IMAGE.name();
        let shown = image.chars().take(80).collect();
        ConfigError::from(Box::new(InvalidValue {
            key,
            value: shown,
            from: ValueSource::Option { name: "--image".to_owned() },
            reason,
            allowed: keys::DOCKER_IMAGE.allowed(),
            suggestion: None,
        }))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vestal_config::{Environment, Home, Override};

    use super::*;
    use crate::backends::own_system::Limit;
    use crate::overrides::BINDS;

    fn read(sets: &[&str], overrides: &Overrides) -> Result<DockerSettings, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        let sets =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
        let env = Environment::from_pairs([("HOME", "/home/ada")]);
        let settings = Settings::load(&crate::schema(), Home::at(home.path()), env, sets);
        DockerSettings::read(&settings, overrides)
    }

    fn spec(sets: &[&str]) -> BTreeMap<String, String> {
        read(sets, &Overrides::default()).unwrap().spec().to_map()
    }

    #[test]
    fn settings_at_their_defaults_are_in_no_spec() {
        assert_eq!(spec(&[]), BTreeMap::new());
        let same = [
            "terminal.container_memory=5G",
            "terminal.docker_network=true",
            "terminal.container_cpu=1.0",
        ];
        assert_eq!(spec(&same), BTreeMap::new());
    }

    #[test]
    fn every_setting_that_shapes_a_container_is_in_the_spec() {
        let sets = [
            "terminal.docker_image=debian:12",
            r#"terminal.docker_volumes=["/z:/z", "/a:/a:ro"]"#,
            r#"terminal.docker_extra_args=["--shm-size", "1g"]"#,
            "terminal.docker_network=false",
            "terminal.docker_run_as_host_user=true",
            "terminal.docker_keep_entrypoint=true",
            "terminal.docker_transport=exec",
            "terminal.container_cpu=1.5",
            "terminal.container_memory=0",
            "terminal.container_disk=100",
            "terminal.container_pids=300",
            "terminal.container_persistent=false",
        ];
        let overrides = Overrides {
            mount: Some("/srv/project".into()),
            binds: vec!["/srv/a".into(), "/srv/b".into()],
            ..Overrides::default()
        };
        let user = HostUser::current();
        let expected = [
            ("binds", r#"["/srv/a","/srv/b"]"#.to_owned()),
            ("terminal.container_cpu", "1.5".to_owned()),
            ("terminal.container_disk", "100".to_owned()),
            ("terminal.container_memory", "none".to_owned()),
            ("terminal.container_persistent", "false".to_owned()),
            ("terminal.container_pids", "300".to_owned()),
            ("terminal.docker_extra_args", r#"["--shm-size","1g"]"#.to_owned()),
            ("terminal.docker_image", "debian:12".to_owned()),
            ("terminal.docker_keep_entrypoint", "true".to_owned()),
            ("terminal.docker_mount_cwd_to_workspace", "/srv/project".to_owned()),
            ("terminal.docker_network", "false".to_owned()),
            ("terminal.docker_run_as_host_user", format!("{}:{}", user.uid, user.gid)),
            ("terminal.docker_transport", "exec".to_owned()),
            ("terminal.docker_volumes", r#"["/a:/a:ro","/z:/z"]"#.to_owned()),
        ];
        let expected: BTreeMap<String, String> =
            expected.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(read(&sets, &overrides).unwrap().spec().to_map(), expected);
    }

    #[test]
    fn a_limit_tightens_against_its_default_and_against_none() {
        let tightens = |was: &[&str], now: &[&str]| {
            let now = read(now, &Overrides::default()).unwrap().spec();
            let drift = now.drift_from(&spec(was), tightening);
            assert_eq!(drift.len(), 1, "{drift:?}");
            drift[0].tightens
        };
        let (none, little, much) = (
            "terminal.container_memory=0",
            "terminal.container_memory=512",
            "terminal.container_memory=8G",
        );
        let cases: [(&[&str], &[&str], bool); 8] = [
            (&[], &[little], true),
            (&[], &[much], false),
            (&[], &[none], false),
            (&[none], &[], true),
            (&[none], &[little], true),
            (&[little], &[none], false),
            (&[much], &[], true),
            (&[little], &[], false),
        ];
        for (was, now, expected) in cases {
            assert_eq!(tightens(was, now), expected, "{was:?} {now:?}");
        }
        assert!(tightens(&["terminal.container_cpu=1.5"], &["terminal.container_cpu=1.25"]));
        assert!(tightens(&[], &["terminal.container_pids=100"]));
        assert!(tightens(&["terminal.container_disk=0"], &["terminal.container_disk=100000"]));
    }

    #[test]
    fn what_may_isolate_more_is_never_ignored() {
        let volumes = [r#"terminal.docker_volumes=["/a:/a"]"#];
        let extra = [r#"terminal.docker_extra_args=["--privileged"]"#];
        let cases: [(&[&str], &[&str], bool); 9] = [
            (&volumes, &[], true),
            (&extra, &[], true),
            (&[], &extra, false),
            (&["terminal.docker_run_as_host_user=true"], &[], true),
            (&["terminal.docker_keep_entrypoint=true"], &[], true),
            (&[], &["terminal.docker_network=false"], true),
            (&["terminal.docker_network=false"], &[], false),
            (&[], &["terminal.docker_image=debian:12"], false),
            (&[], &["terminal.docker_transport=exec"], false),
        ];
        for (was, now, expected) in cases {
            let drift = read(now, &Overrides::default()).unwrap().spec();
            let drift = drift.drift_from(&spec(was), tightening);
            let tightens: Vec<bool> = drift.iter().map(|drift| drift.tightens).collect();
            assert_eq!(tightens, [expected], "{was:?} {now:?}");
        }
    }

    #[test]
    fn a_container_with_other_directories_is_never_handed_out() {
        let spec = |binds: &[&str]| {
            let binds = binds.iter().map(Into::into).collect();
            read(&[], &Overrides { binds, ..Overrides::default() }).unwrap().spec()
        };
        let cases = [(&["/a"][..], &[][..]), (&[], &["/a"]), (&["/a"], &["/a", "/b"])];
        for (was, now) in cases {
            let drift = spec(now).drift_from(&spec(was).to_map(), tightening);
            let drift: Vec<_> = drift.iter().map(|own| (own.key.as_str(), own.tightens)).collect();
            assert_eq!(drift, [(BINDS, true)], "{was:?} {now:?}");
        }
    }

    #[test]
    fn what_is_asked_for_one_sandbox_goes_before_the_settings() {
        let overrides = Overrides {
            image: Some("alpine:3".into()),
            cwd: Some("/srv".into()),
            mount: Some("/p".into()),
            ..Overrides::default()
        };
        let made = read(&["terminal.docker_image=debian:12"], &overrides).unwrap();
        assert_eq!(made.image.as_str(), "alpine:3");
        assert_eq!(made.cwd, Some("/srv".into()));
        assert_eq!(made.mount, Some("/p".into()));
    }

    #[test]
    fn a_directory_of_the_host_is_no_place_to_start_in_a_container() {
        let cwd = |sets: &[&str], asked: Option<&str>| {
            let overrides = Overrides { cwd: asked.map(Into::into), ..Overrides::default() };
            read(sets, &overrides).unwrap().cwd
        };
        assert_eq!(cwd(&[], None), None);
        assert_eq!(cwd(&[], Some("sub")), None);
        assert_eq!(cwd(&["terminal.cwd=/srv/app"], None), Some("/srv/app".into()));
        assert_eq!(cwd(&["terminal.cwd=/srv/app"], Some("/opt")), Some("/opt".into()));
        for host in ["terminal.cwd=/home/ada/project", "terminal.cwd=~/project", "terminal.cwd=x"] {
            assert_eq!(cwd(&[host], None), None, "{host}");
        }
    }

    #[test]
    fn an_image_that_is_none_is_refused_by_name() {
        let overrides = Overrides { image: Some("--bad".into()), ..Overrides::default() };
        let error = read(&[], &overrides).unwrap_err().to_string();
        assert!(error.starts_with("terminal.docker_image is --bad"), "{error}");
    }

    #[test]
    fn a_limit_knows_whether_the_user_set_it_to_something_else() {
        let sets = ["terminal.container_memory=5120", "terminal.container_pids=300"];
        let made = read(&sets, &Overrides::default()).unwrap();
        assert_eq!(made.limits.memory_mb, Limit { value: 5120, set_by_user: false });
        assert_eq!(made.limits.cpu, Limit { value: 1000, set_by_user: false });
        assert_eq!(made.limits.disk_mb, Limit { value: 51_200, set_by_user: false });
        assert_eq!(made.limits.pids, Limit { value: 300, set_by_user: true });
        let left_out = ["terminal.container_disk", "terminal.container_pids"].map(str::to_owned);
        let reported = made.limits.warning(&left_out).unwrap();
        assert!(
            reported.starts_with("terminal.container_pids cannot be enforced here"),
            "{reported}"
        );
        assert_eq!(made.limits.warning(&left_out[..1]), None, "a default is not worth a word");
    }
}
