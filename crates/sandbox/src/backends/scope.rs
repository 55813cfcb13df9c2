//! A systemd scope for a guest.
//!
//! systemd kills all processes in the cgroup of a session or service when it ends. A
//! guest in a scope of its own survives that.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How to start a program in a scope of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SystemdScope {
    program: PathBuf,
    manager: SystemdManager,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SystemdManager {
    System,
    User { runtime_dir: PathBuf },
}

impl SystemdScope {
    /// Returns how to create a scope on this machine; `None` where systemd does not
    /// run.
    pub(super) fn detect(uid: u32) -> Option<Self> {
        Self::detect_in(Path::new("/"), uid)
    }

    fn detect_in(root: &Path, uid: u32) -> Option<Self> {
        if !root.join("run/systemd/system").is_dir() {
            return None;
        }
        let program = ["usr/bin/systemd-run", "bin/systemd-run"]
            .iter()
            .map(|path| root.join(path))
            .find(|path| path.is_file())?;
        if uid == 0 {
            return Some(Self { program, manager: SystemdManager::System });
        }
        let runtime_dir = root.join(format!("run/user/{uid}"));
        runtime_dir
            .join("systemd/private")
            .exists()
            .then_some(Self { program, manager: SystemdManager::User { runtime_dir } })
    }

    /// Returns the scope of an instance.
    pub(super) fn place<'a>(&'a self, instance: &'a str) -> ScopePlace<'a> {
        ScopePlace { scope: self, instance, properties: &[] }
    }

    /// Returns the cgroup controllers that the manager can use for its scopes.
    pub(super) fn controllers(&self, uid: u32) -> Vec<String> {
        self.controllers_in(Path::new("/sys/fs/cgroup"), uid)
    }

    fn controllers_in(&self, mounted: &Path, uid: u32) -> Vec<String> {
        let file = match self.manager {
            SystemdManager::System => mounted.join("cgroup.controllers"),
            SystemdManager::User { .. } => mounted
                .join(format!("user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers")),
        };
        match (std::fs::read_to_string(file), &self.manager) {
            (Ok(text), _) => text.split_whitespace().map(str::to_owned).collect(),
            // On cgroups v1 the system manager has all controllers, and a user's
            // manager none.
            (Err(_), SystemdManager::System) => ["cpu", "memory", "pids"].map(str::to_owned).into(),
            (Err(_), SystemdManager::User { .. }) => Vec::new(),
        }
    }
}

/// A scope for one instance.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopePlace<'a> {
    scope: &'a SystemdScope,
    instance: &'a str,
    properties: &'a [String],
}

impl<'a> ScopePlace<'a> {
    /// Returns the scope with these properties, each `Name=value`.
    pub(super) fn with(self, properties: &'a [String]) -> Self {
        Self { properties, ..self }
    }

    /// Returns the program and first arguments that start a command in a scope
    /// named after the instance.
    pub(super) fn prefix(&self) -> (PathBuf, Vec<OsString>) {
        let mut arguments: Vec<OsString> = match self.scope.manager {
            SystemdManager::System => vec![],
            SystemdManager::User { .. } => vec!["--user".into()],
        };
        arguments.extend(["--scope", "--quiet", "--collect"].map(OsString::from));
        arguments.push(format!("--unit=vestal-{}", self.instance).into());
        arguments.extend(self.properties.iter().map(|own| format!("--property={own}").into()));
        arguments.push("--".into());
        (self.scope.program.clone(), arguments)
    }

    /// Returns the variable systemd-run needs to find the user's manager.
    pub(super) fn environment(self) -> Option<(&'static str, &'a Path)> {
        match &self.scope.manager {
            SystemdManager::System => None,
            SystemdManager::User { runtime_dir } => Some(("XDG_RUNTIME_DIR", runtime_dir)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(systemd: bool, user: Option<u32>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/systemd-run"), "").unwrap();
        if systemd {
            fs::create_dir_all(root.path().join("run/systemd/system")).unwrap();
        }
        if let Some(uid) = user {
            let dir = root.path().join(format!("run/user/{uid}/systemd"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("private"), "").unwrap();
        }
        root
    }

    #[test]
    fn without_systemd_as_init_there_is_no_scope() {
        assert_eq!(SystemdScope::detect_in(machine(false, Some(7)).path(), 7), None);
    }

    #[test]
    fn root_asks_the_system_manager_and_a_user_their_own() {
        let root = machine(true, Some(7));
        let (_, system) = SystemdScope::detect_in(root.path(), 0).unwrap().place("i1").prefix();
        assert_eq!(system, ["--scope", "--quiet", "--collect", "--unit=vestal-i1", "--"]);
        let scope = SystemdScope::detect_in(root.path(), 7).unwrap();
        assert_eq!(scope.place("i1").prefix().1[0], "--user");
        assert_eq!(scope.place("i1").environment().unwrap().1, root.path().join("run/user/7"));
    }

    #[test]
    fn limits_are_properties_of_the_scope() {
        let root = machine(true, None);
        let scope = SystemdScope::detect_in(root.path(), 0).unwrap();
        let properties = ["TasksMax=100".to_owned()];
        let (_, arguments) = scope.place("i1").with(&properties).prefix();
        assert_eq!(arguments[3..], ["--unit=vestal-i1", "--property=TasksMax=100", "--"]);
    }

    #[test]
    fn a_user_can_limit_what_the_manager_was_given() {
        let root = machine(true, Some(7));
        let groups = root.path().join("groups");
        let own = groups.join("user.slice/user-7.slice/user@7.service");
        fs::create_dir_all(&own).unwrap();
        let scope = SystemdScope::detect_in(root.path(), 7).unwrap();
        assert_eq!(scope.controllers_in(&groups, 7), Vec::<String>::new());
        fs::write(own.join("cgroup.controllers"), "memory pids\n").unwrap();
        assert_eq!(scope.controllers_in(&groups, 7), ["memory", "pids"]);
        let system = SystemdScope::detect_in(root.path(), 0).unwrap();
        assert_eq!(system.controllers_in(&groups, 0), ["cpu", "memory", "pids"]);
    }

    #[test]
    fn a_user_without_a_manager_gets_none() {
        assert_eq!(SystemdScope::detect_in(machine(true, None).path(), 7), None);
    }
}
