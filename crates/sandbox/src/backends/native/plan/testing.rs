//! A fake host and settings for tests, and a plan as text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_config::{Environment, Home, Override, Settings};
use vestal_wire::{Bind, OverlayDirs, Purpose, Root, SandboxMount};

use super::{HostDirs, PlanInput, PlannedFor, PlannedSandbox, enclosure, users};
use crate::Overrides;
use crate::backend::BackendError;
use crate::backends::native::facts::{
    Helpers, HostFacts, PackageDatabase, SubordinateIds, SystemDir, SystemDirKind, UserQuotas,
};
use crate::backends::native::private::PrivatePaths;
use crate::backends::native::settings::NativeSettings;
use crate::backends::native::tier::Tier;
use crate::mounts::Mounts;

/// The input of a plan.
pub(super) struct PlanFixture {
    pub(super) machine: PlannedFor,
    pub(super) facts: HostFacts,
    pub(super) settings: NativeSettings,
    pub(super) dirs: HostDirs,
    pub(super) tier: Tier,
    pub(super) private: PrivatePaths,
    pub(super) etc_dir: PathBuf,
    pub(super) rootfs: Option<PathBuf>,
    pub(super) cgroups: Vec<PathBuf>,
}

impl PlanFixture {
    pub(super) fn new(tier: Tier) -> Self {
        Self::with(tier, &[])
    }

    pub(super) fn with(tier: Tier, sets: &[&str]) -> Self {
        Self::asking(tier, sets, &Overrides::default())
    }

    pub(super) fn asking(tier: Tier, sets: &[&str], overrides: &Overrides) -> Self {
        let sets =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).unwrap()).collect();
        let env = Environment::from_pairs([("HOME", "/home/ada")]);
        let settings = Settings::load(&crate::schema(), Home::at("/home/ada/.vestal"), env, sets);
        let dirs = HostDirs {
            instance: "/s/i".into(),
            boot: "/s/i/boot".into(),
            io: "/s/i/io".into(),
            state: "/s/state".into(),
            workspace: "/s/workspace".into(),
            home: "/s/home".into(),
            layers: "/s/i/layers".into(),
        };
        Self {
            machine: PlannedFor::ThisMachine,
            facts: facts(),
            settings: NativeSettings::read(&settings, overrides).unwrap(),
            dirs,
            tier,
            private: PrivatePaths::default(),
            etc_dir: "/c/etc-1".into(),
            rootfs: (tier == Tier::Rootfs).then(|| "/c/rootfs-1".into()),
            cgroups: Vec::new(),
        }
    }

    /// Makes the user an ordinary one.
    pub(super) fn ordinary(mut self) -> Self {
        (self.facts.uid, self.facts.gid) = (1000, 100);
        self
    }

    pub(super) fn try_plan(&self) -> Result<PlannedSandbox, BackendError> {
        enclosure(&PlanInput {
            machine: self.machine,
            dirs: &self.dirs,
            settings: &self.settings,
            facts: &self.facts,
            tier: self.tier,
            users: users(self.tier, &self.facts),
            mounts: &Mounts::untried(&self.settings.user_mounts().requests()?),
            private: &self.private,
            etc_dir: &self.etc_dir,
            rootfs: self.rootfs.as_deref(),
            cgroups: &self.cgroups,
            max_processes: Some(256),
            purpose: Purpose::Trial,
        })
    }

    pub(super) fn plan(&self) -> PlannedSandbox {
        self.try_plan().unwrap()
    }

    /// Returns the mounts as text.
    pub(super) fn mounts(&self) -> Vec<String> {
        self.plan().enclosure.mounts.iter().map(shown).collect()
    }

    /// Returns the mount at a target.
    pub(super) fn at(&self, target: &str) -> Option<String> {
        let mount = format!("{target} ");
        self.mounts().into_iter().find(|line| line.starts_with(&mount))
    }

    /// Returns why planning failed.
    pub(super) fn refused(&self) -> String {
        match self.try_plan() {
            Err(BackendError::Advised { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    }
}

/// A host with the usual directories.
fn facts() -> HostFacts {
    let dir = |name: &'static str| SystemDir {
        name,
        kind: SystemDirKind::Directory { source: Path::new("/").join(name), mode: 0o755 },
    };
    let link =
        |name: &'static str, text: &str| SystemDir { name, kind: SystemDirKind::Link(text.into()) };
    HostFacts {
        uid: 0,
        gid: 0,
        user: "ada".into(),
        system: vec![
            dir("usr"),
            dir("opt"),
            link("bin", "usr/bin"),
            link("sbin", "usr/sbin"),
            link("lib", "usr/lib"),
            link("lib64", "/usr/lib64"),
        ],
        packages: vec![PackageDatabase {
            name: "dpkg",
            target: "/var/lib/dpkg",
            kind: SystemDirKind::Directory { source: "/var/lib/dpkg".into(), mode: 0o755 },
        }],
        restricted: vec!["/opt/vault".into()],
        has_shell: true,
        quotas: UserQuotas::default(),
        helpers: Some(Helpers {
            newuidmap: "/usr/bin/newuidmap".into(),
            newgidmap: "/usr/bin/newgidmap".into(),
        }),
        sub_uids: vec![SubordinateIds { first: 100_000, count: 65_536 }],
        sub_gids: vec![SubordinateIds { first: 200_000, count: 65_536 }],
    }
}

/// Returns a plan as text, one item a line.
pub(super) fn text(planned: &PlannedSandbox) -> String {
    let enclosure = &planned.enclosure;
    let mut text = String::new();
    let root = match &enclosure.root {
        Root::Directory(path) => utf8(path),
        Root::Overlay(layers) => over(layers),
    };
    writeln!(text, "root {root}").unwrap();
    for mount in &enclosure.mounts {
        writeln!(text, "{}", shown(mount)).unwrap();
    }
    for dir in &planned.dirs_to_make {
        let owner = dir.owner.map_or_else(|| "us".to_owned(), |(uid, gid)| format!("{uid}:{gid}"));
        writeln!(text, "make {} {:04o} {owner}", dir.path.display(), dir.mode).unwrap();
    }
    for (what, ranges) in [("uid", &enclosure.users.uids), ("gid", &enclosure.users.gids)] {
        for range in ranges {
            writeln!(text, "{what} {} {} {}", range.inside, range.outside, range.count).unwrap();
        }
    }
    let users = format!("{:?}", enclosure.users.mapping);
    let users = users.split([' ', '{', '(']).next().unwrap();
    writeln!(
        text,
        "users {users}, network {:?}, host {}, capabilities {:#x}, processes {:?}",
        enclosure.network, enclosure.hostname, enclosure.capabilities, enclosure.max_processes
    )
    .unwrap();
    text
}

fn shown(mount: &SandboxMount) -> String {
    let word = |holds: bool, word: &'static str| if holds { word } else { "" };
    match mount {
        SandboxMount::Bind(Bind {
            source,
            target,
            read_only,
            recursive,
            shifted,
            hidden,
            public_only,
            ..
        }) => format!(
            "{} bind {}{}{}{}{}{}",
            utf8(target),
            utf8(source),
            word(*read_only, " ro"),
            word(*recursive, " recursive"),
            word(*shifted, " shifted"),
            word(*public_only, " public"),
            without(hidden)
        ),
        SandboxMount::Overlay { target, layers } => format!("{} {}", utf8(target), over(layers)),
        SandboxMount::Tmpfs { target, size, mode, exec } => {
            format!("{} memory {}K {mode:04o}{}", utf8(target), size >> 10, word(*exec, " exec"))
        }
        SandboxMount::Proc { target } => format!("{} processes", utf8(target)),
        SandboxMount::Dev { target, shared_memory } => {
            format!("{} devices {}K", utf8(target), shared_memory >> 10)
        }
        SandboxMount::Symlink { target, text } => format!("{} link {}", utf8(target), utf8(text)),
        SandboxMount::Directory { target, mode } => {
            format!("{} directory {mode:04o}", utf8(target))
        }
    }
}

fn over(layers: &OverlayDirs) -> String {
    let OverlayDirs { lower, shifted, upper, work, hidden, public_only } = layers;
    let shifted = if *shifted { " shifted" } else { "" };
    let public = if *public_only { " public" } else { "" };
    assert_eq!(utf8(work), utf8(upper).replace("/upper", "/work"));
    format!("layers {} over {}{shifted}{public}{}", utf8(upper), utf8(lower), without(hidden))
}

fn without(hidden: &[ByteVec]) -> String {
    hidden.iter().flat_map(|path| [" without ".to_owned(), utf8(path)]).collect()
}

fn utf8(bytes: &ByteVec) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
