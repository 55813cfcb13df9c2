//! Which sandbox a caller means, by where it was started.

use std::path::Path;

use vestal_config::keys;

use super::{Engine, Inner};
use crate::key::{Task, hex};
use crate::mounts::planted_link;
use crate::store::StoreError;
use crate::{Error, Overrides, binds};

/// What separates a task's name from the directory mounted in its sandbox.
const AT: &str = "@/";

/// Longest task name that carries its directory as it is.
const LONGEST: usize = 180;

impl Engine {
    /// Returns the task whose sandbox a caller means: the one named or, when
    /// the directory it was started in is to be mounted, the one of that
    /// directory. So no project is ever handed another one's files.
    pub fn scoped(&self, task: &Task) -> Result<Task, Error> {
        Ok(self.inner.scope(task, &Overrides::default())?.0)
    }

    /// Returns the task of a directory that is mounted in its sandbox.
    pub fn task_with_mount(&self, task: &Task, dir: &Path) -> Result<Task, Error> {
        let overrides = Overrides { mount: Some(dir.to_owned()), ..Overrides::default() };
        Ok(self.inner.scope(task, &overrides)?.0)
    }
}

impl Inner {
    /// Resolves the directory to mount, if any, and the task it belongs to.
    pub(super) fn scope(
        &self,
        task: &Task,
        overrides: &Overrides,
    ) -> Result<(Task, Overrides), Error> {
        let mut overrides = overrides.clone();
        overrides.binds = binds::resolve(&overrides.binds)?;
        if overrides.mount.is_none() && self.mounts_launch_dir(&overrides)? {
            let launch_dir = std::env::current_dir()
                .map_err(|error| StoreError::io("find", "the current directory", error))?;
            overrides.mount = Some(launch_dir);
        }
        // A task that names its directory has it on record, or gets it now.
        if let Some(at) = task.as_str().find(AT) {
            let dir = Path::new(&task.as_str()[at + 1..]);
            let known = self.dir(&self.key(task)).exists();
            let unconfined = self.names_unconfined(&overrides)?;
            overrides.mount = (!known && !unconfined && dir.is_dir()).then(|| dir.to_owned());
            return Ok((task.clone(), overrides));
        }
        let Some(mount) = &overrides.mount else {
            return Ok((task.clone(), overrides));
        };
        self.refuse_planted_links(mount)?;
        let mount =
            std::fs::canonicalize(mount).map_err(|error| StoreError::io("mount", mount, error))?;
        let task = at_directory(task, &mount)?;
        overrides.mount = Some(mount);
        Ok((task, overrides))
    }

    /// Refuses a directory that is reached by a link which a sandbox may have
    /// planted. The directory that this process was started in has no link in its
    /// name: the shell says by which way it came there.
    fn refuse_planted_links(&self, mount: &Path) -> Result<(), Error> {
        let logical = self.settings.environment().get("PWD").map(Path::new);
        let logical = logical.filter(|way| is_same_dir(way, mount));
        for way in [Some(mount), logical].into_iter().flatten().filter(|way| way.is_absolute()) {
            if let Some(reason) = planted_link(&self.settings, way)? {
                return Err(Error::Bind { path: way.to_owned(), reason });
            }
        }
        Ok(())
    }

    fn mounts_launch_dir(&self, overrides: &Overrides) -> Result<bool, Error> {
        Ok(!self.names_unconfined(overrides)?
            && self.settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?.value)
    }

    /// Reports whether a backend is named whose sandboxes see the host's files
    /// as they are.
    fn names_unconfined(&self, overrides: &Overrides) -> Result<bool, Error> {
        Ok(self.named_backend(overrides)?.is_some_and(|name| self.is_unconfined(&name)))
    }
}

/// Returns whether two paths lead to the same directory.
fn is_same_dir(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

/// Returns the name of a task in a directory.
fn at_directory(task: &Task, dir: &Path) -> Result<Task, Error> {
    let shown = dir.to_string_lossy();
    let mut name = format!("{task}@{shown}");
    if name.len() > LONGEST || dir.to_str().is_none() {
        use sha2::{Digest as _, Sha256};
        use std::os::unix::ffi::OsStrExt as _;
        let digest = hex(&Sha256::digest(dir.as_os_str().as_bytes())[..8]);
        let last = dir.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        name = format!("{}@/…/{}~{digest}", head(task.as_str()), head(&last));
    }
    name.parse().map_err(|_| Error::NoSandbox { task: name })
}

/// Returns the beginning of a name.
fn head(name: &str) -> &str {
    &name[..name.floor_char_boundary(60)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(task: &str, dir: &str) -> String {
        at_directory(&task.parse().unwrap(), Path::new(dir)).unwrap().to_string()
    }

    #[test]
    fn a_directory_that_is_reached_by_a_planted_link_is_not_mounted() {
        use std::os::unix::fs::symlink;
        use vestal_config::{Environment, Home, Settings};
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for dir in ["home", "shared", "secret", "own"] {
            std::fs::create_dir(root.join(dir)).unwrap();
        }
        symlink(root.join("secret"), root.join("shared/project")).unwrap();
        symlink(root.join("secret"), root.join("own/project")).unwrap();
        crate::mounts::expose(&root.join("home"), &root.join("shared"));
        // The kernel knows the directory by its real name, the shell by the way.
        let mounted = |way: &str, dir: &str| {
            let way = root.join(way);
            let env = Environment::from_pairs([
                ("HOME", "/nonexistent".as_ref()),
                ("PWD", way.as_os_str()),
            ]);
            let settings = Settings::load(
                &vestal_config::schema(),
                Home::at(root.join("home")),
                env,
                Vec::new(),
            );
            let engine = Engine::with_backends(settings, Vec::new()).unwrap();
            let task = engine.task_with_mount(&"t".parse().unwrap(), &root.join(dir));
            task.map_err(|error| error.to_string())
        };
        let task: Task = format!("t@{}", root.join("secret").display()).parse().unwrap();
        let link = format!("{} is a link to", root.join("shared/project").display());
        for (way, dir) in [("shared/project", "secret"), ("own", "shared/project")] {
            let said = mounted(way, dir).unwrap_err();
            assert!(said.contains(&link), "{said}");
        }
        for (way, dir) in [("own/project", "secret"), ("shared", "secret"), ("own", "own/project")]
        {
            assert_eq!(mounted(way, dir), Ok(task.clone()), "{way} {dir}");
        }
    }

    #[test]
    fn a_directory_is_part_of_its_task() {
        assert_eq!(named("default", "/work/a"), "default@/work/a");
        assert_ne!(named("default", "/work/a"), named("default", "/work/b"));
    }

    #[test]
    fn a_long_directory_still_gives_a_task_of_its_own() {
        let (a, b) = (format!("/{}/x", "a".repeat(200)), format!("/{}/x", "b".repeat(200)));
        assert!(named("t", &a).len() <= 200);
        assert!(named("t", &a).contains(AT));
        assert_ne!(named("t", &a), named("t", &b));
        let wide = format!("/{}", "\u{1F525}".repeat(60));
        assert!(named(&"\u{1F525}".repeat(50), &wide).len() <= 200);
    }
}
