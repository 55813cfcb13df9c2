//! Names of containers.

use super::labels::Marks;
use crate::{Key, label_value};

/// Characters of the task in a name.
const TASK: usize = 30;

/// Returns the name of a sandbox's container. One that outlives processes has
/// the same name whoever makes it, so that the engine itself keeps a second one
/// away; one that is owned by a process has a name of its own.
pub(in crate::backends::docker) fn container_name(key: &Key, instance: Option<&str>) -> String {
    name(key.task().as_str(), &key.hash(), instance)
}

/// Returns the name that a container with these labels was given.
pub(in crate::backends::docker) fn name_of_marks(marks: &Marks, instance: Option<&str>) -> String {
    name(&marks.task, &marks.key, instance)
}

fn name(task: &str, hash: &str, instance: Option<&str>) -> String {
    let task: String = label_value(task).chars().take(TASK).collect();
    let hash: String = hash.chars().take(12).collect();
    match instance {
        None => format!("vestal-{task}-{hash}"),
        Some(instance) => {
            let instance: String = label_value(instance).chars().take(8).collect();
            format!("vestal-{task}-{hash}-{instance}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HomeId;

    fn key(task: &str) -> Key {
        Key::new(HomeId("h".into()), "p", task.parse().unwrap())
    }

    #[test]
    fn names_are_short_and_made_of_what_engines_allow() {
        let tasks = ["default", "a/b:c", "🦀", ".hidden", "-x", "..", &"long ".repeat(40)];
        for task in tasks {
            for instance in [None, Some("0123456789abcdef"), Some("é/"), Some("")] {
                let name = container_name(&key(task), instance);
                assert!(name.len() <= 63, "{name}");
                assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
                let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
                assert!(name.chars().all(allowed), "{name}");
            }
        }
    }

    #[test]
    fn a_sandbox_has_one_name_and_owned_instances_have_their_own() {
        let hash = key("default").hash();
        let name = container_name(&key("default"), None);
        assert_eq!(name, format!("vestal-default-{}", &hash[..12]));
        let owned = container_name(&key("default"), Some("0123456789abcdef"));
        assert_eq!(owned, format!("{name}-01234567"));
    }

    #[test]
    fn tasks_that_look_alike_have_different_names() {
        assert_ne!(container_name(&key("a/b"), None), container_name(&key("a:b"), None));
        let long = "x".repeat(60);
        assert_ne!(
            container_name(&key(&long), None),
            container_name(&key(&format!("{long}y")), None)
        );
    }
}
