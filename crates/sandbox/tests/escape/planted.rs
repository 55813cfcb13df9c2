//! What is planted on the host, for an attacker to find.

use std::fs::Permissions;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use vestal_config::Environment;

use crate::support::{BackendFixture, User, marker};

/// What the attacker looks for; a remark wherever somebody reads it.
const CONTENT: &str = "# planted by a test of Vestal\n";

/// Where root's part is told to the user that a case is run by.
const TOLD: &str = "VESTAL_TEST_PLANTED";

/// Directories of the machine that nothing of is shown in a sandbox.
const OF_ROOT: [&str; 8] =
    ["/root", "/home", "/srv", "/etc", "/run", "/var/lib", "/var/tmp", "/dev/shm"];

/// Directories of the machine that sandboxes show. What is planted in them is
/// for root alone.
const OF_ROOT_ALONE: [&str; 2] = ["/opt", "/usr/local"];

/// Files of people, below their homes.
const OF_PEOPLE: [&str; 5] = [
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gcloud/credentials.db",
    ".docker/config.json",
    ".netrc",
];

/// Files of the Vestal home.
const OF_VESTAL: [&str; 3] = [".env", "config.yaml", "profiles/other/.env"];

/// Files that were planted; they go with this.
#[derive(Debug)]
pub(crate) struct Planted {
    files: Vec<PathBuf>,
    /// What root made for this and nobody else removes.
    made: Vec<PathBuf>,
}

impl Planted {
    /// Plants files around a fixture, and in the directories of the machine where
    /// that was not done by root before.
    pub(crate) fn around(fixture: &BackendFixture) -> Self {
        let reported =
            Environment::capture().get(TOLD).map(|name| name.to_str().unwrap().to_owned());
        let mut planted = match reported {
            Some(name) => Self { files: of_root(&name), made: Vec::new() },
            None if rustix::process::getuid().is_root() => Self::by_root(&name()),
            None => Self { files: Vec::new(), made: Vec::new() },
        };
        let people = OF_PEOPLE.iter().map(|file| fixture.user_home().join(file));
        let vestal = OF_VESTAL.iter().map(|file| fixture.home().join(file));
        for file in people.chain(vestal) {
            plant(&file, 0o600);
            planted.files.push(file);
        }
        planted
    }

    fn by_root(name: &str) -> Self {
        let files = of_root(name);
        let mut planted = Self { files: Vec::new(), made: Vec::new() };
        for file in files {
            let shown = OF_ROOT_ALONE.iter().any(|dir| file.starts_with(dir));
            let dirs: Vec<&Path> =
                file.ancestors().skip(1).take_while(|dir| !dir.ends_with(name)).collect();
            let top = dirs.last().map_or(file.parent(), |dir| dir.parent()).unwrap();
            planted.made.push(top.to_owned());
            // A process that gets there may read them: only the isolation is in the way.
            // In what is shown it is the permissions.
            plant(&file, if shown { 0o600 } else { 0o644 });
            for dir in dirs.into_iter().chain([top]) {
                std::fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
            }
            planted.files.push(file);
        }
        planted
    }

    /// Returns all of them.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Checks that nobody has changed them.
    pub(crate) fn assert_untouched(&self) {
        for file in &self.files {
            // A user may not read all that root has planted.
            match std::fs::read_to_string(file) {
                Ok(content) => assert_eq!(content, CONTENT, "{}", file.display()),
                Err(error) => {
                    let file = file.display();
                    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{file}");
                }
            }
        }
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        for dir in &self.made {
            std::fs::remove_dir_all(dir).ok();
        }
    }
}

/// Runs a case as an ordinary user, with root's part planted.
pub(crate) fn as_user(test: &str, case: impl Future<Output = ()>) {
    let user = User::of_native();
    if !rustix::process::getuid().is_root() {
        return user.run(test, &[], case);
    }
    let name = name();
    let planted = Planted::by_root(&name);
    user.run(test, &[(TOLD, &name)], case);
    planted.assert_untouched();
}

fn name() -> String {
    format!("vestal-escape-{}", marker())
}

fn of_root(name: &str) -> Vec<PathBuf> {
    let hidden = OF_ROOT.iter().map(|dir| Path::new(dir).join(name).join("secret"));
    let shown = OF_ROOT_ALONE.iter().map(|dir| Path::new(dir).join(name).join("a/b/key"));
    hidden.chain(shown).collect()
}

fn plant(file: &Path, mode: u32) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, CONTENT).unwrap();
    std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}
