use tempfile::TempDir;
use vestal_config::{Environment, Home, Settings};

use super::*;

fn settings(home: &TempDir) -> Settings {
    let environment = Environment::from_pairs([("HOME", "/home/ada")]);
    Settings::load(&crate::schema(), Home::at(home.path()), environment, Vec::new())
}

fn named(task: &str, dir: &str) -> String {
    at_directory(&task.parse().unwrap(), Path::new(dir)).unwrap().to_string()
}

#[test]
fn a_directory_that_is_reached_by_a_planted_link_is_not_mounted() {
    use std::os::unix::fs::symlink;
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
        let env =
            Environment::from_pairs([("HOME", "/nonexistent".as_ref()), ("PWD", way.as_os_str())]);
        let settings =
            Settings::load(&crate::schema(), Home::at(root.join("home")), env, Vec::new());
        let engine = Engine::with_backends(settings, Vec::new()).unwrap();
        let task = engine.task_with_mount(&"t".parse().unwrap(), &root.join(dir));
        task.map_err(|error| error.to_string())
    };
    let task: TaskName = format!("t@{}", root.join("secret").display()).parse().unwrap();
    let link = format!("{} is a link to", root.join("shared/project").display());
    for (way, dir) in [("shared/project", "secret"), ("own", "shared/project")] {
        let printed = mounted(way, dir).unwrap_err();
        assert!(printed.contains(&link), "{printed}");
    }
    for (way, dir) in [("own/project", "secret"), ("shared", "secret"), ("own", "own/project")] {
        assert_eq!(mounted(way, dir), Ok(task.clone()), "{way} {dir}");
    }
}

#[test]
fn the_root_of_the_filesystem_is_no_workspace_and_is_not_noted_as_one() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::with_backends(settings(&home), Vec::new()).unwrap();
    let root = || Overrides { mount: Some("/".into()), ..Overrides::default() };
    let named: TaskName = "t@/".parse().unwrap();
    let refused = [
        engine.inner.scope(&"t".parse().unwrap(), &root()),
        engine.inner.scope(&named, &Overrides::default()),
    ];
    for refused in refused {
        let printed = refused.unwrap_err().to_string();
        assert_eq!(
            printed,
            "/ cannot be mounted: it is the root of the filesystem; start in a project directory"
        );
    }
    let noted = std::fs::read_dir(home.path().join("mounted")).into_iter().flatten();
    let noted: Vec<_> = noted.map(|entry| entry.unwrap().file_name()).collect();
    assert!(noted.iter().all(|name| name == "seeded"), "{noted:?}");
}

#[test]
fn directories_of_the_system_and_the_users_home_are_no_workspaces() {
    let home = Some(Path::new("/home/ada"));
    for refused in ["/", "/etc", "/etc/ssh", "/usr", "/var", "/home", "/home/ada", "/sys/kernel"] {
        assert!(too_wide(Path::new(refused), home).is_some(), "{refused}");
    }
    for project in ["/home/ada/project", "/home/bob", "/srv/site", "/usr/src/linux", "/var/www"] {
        assert_eq!(too_wide(Path::new(project), home), None, "{project}");
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
