//! Which directories of the host hold a piece of work, and which hold everything.

use std::path::Path;

/// Directories of the host's system: neither they nor what is below them is a project.
const SYSTEM_TREES: [&str; 14] = [
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run",
    "/sbin", "/sys", "/usr", "/var",
];

/// Directories of the system below which people keep projects.
const PROJECT_TREES: [&str; 6] =
    ["/dev/shm", "/run/user", "/usr/local/src", "/usr/src", "/var/tmp", "/var/www"];

/// Directories that hold many people's or programs' files; one of those in them may be a project.
const SHARED_DIRS: [&str; 12] = [
    "/dev/shm",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/run/user",
    "/srv",
    "/tmp",
    "/usr/local/src",
    "/usr/src",
    "/var/tmp",
];

/// Returns why a directory of the host cannot be a workspace, or nothing if it can. A directory that is
/// named as a volume in the settings is the user's decision, and not asked about.
pub fn too_wide(mount: &Path, user_home: Option<&Path>) -> Option<&'static str> {
    let is_in = |trees: &[&str]| trees.iter().any(|tree| mount.starts_with(tree));
    let is_one_of = |dirs: &[&str]| dirs.iter().any(|dir| mount == Path::new(dir));
    if mount.parent().is_none() {
        return Some("it is the root of the filesystem");
    }
    if user_home.is_some_and(|home| home.starts_with(mount)) {
        return Some("your home directory, with all it holds, would be writable in the sandbox");
    }
    // What is below the home is the user's, wherever that is: services have theirs below /var.
    let is_below_home =
        user_home.is_some_and(|home| home.parent().is_some() && mount.starts_with(home));
    let is_project = is_below_home || is_in(&PROJECT_TREES);
    if is_in(&SYSTEM_TREES) && !is_project {
        return Some("it belongs to the system of this machine");
    }
    is_one_of(&SHARED_DIRS).then_some("it holds more than one project")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(mount: &str, home: &str) -> bool {
        too_wide(Path::new(mount), Some(Path::new(home))).is_some()
    }

    #[test]
    fn nothing_of_the_system_is_a_workspace_however_deep() {
        for mount in [
            "/",
            "/usr",
            "/usr/local",
            "/usr/local/bin",
            "/usr/share/doc",
            "/lib",
            "/etc/ssh",
            "/var/lib/dpkg",
            "/var/tmp",
            "/opt",
            "/srv",
            "/root",
            "/home",
            "/tmp",
            "/run/user",
            "/dev/shm",
            "/boot/grub",
        ] {
            assert!(is_refused(mount, "/home/ada"), "{mount}");
        }
    }

    #[test]
    fn a_home_is_no_workspace_and_what_is_below_it_is() {
        assert!(is_refused("/home/ada", "/home/ada") && is_refused("/home", "/home/ada"));
        assert!(!is_refused("/home/ada/lamp", "/home/ada"));
        assert!(is_refused("/var/lib/vestal", "/var/lib/vestal"));
        assert!(!is_refused("/var/lib/vestal/lamp", "/var/lib/vestal"));
        // A user without a home of their own owns nothing by that.
        assert!(is_refused("/etc/ssh", "/"));
    }

    #[test]
    fn places_where_people_keep_projects_are_workspaces() {
        for mount in [
            "/opt/lamp",
            "/srv/lamp",
            "/mnt/disk/lamp",
            "/tmp/lamp",
            "/root/lamp",
            "/var/www",
            "/var/www/lamp",
            "/var/tmp/lamp",
            "/usr/src/lamp",
            "/usr/local/src/lamp",
            "/run/user/1000/lamp",
            "/workspaces/lamp",
            "/data",
        ] {
            assert!(!is_refused(mount, "/home/ada"), "{mount}");
        }
    }
}
