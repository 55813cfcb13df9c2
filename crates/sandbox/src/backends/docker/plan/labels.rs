//! Labels of containers, for people and scripts, and to find them again; and their
//! names.

use std::collections::HashMap;

use super::blueprint::Blueprint;
use crate::backend::{BackendError, Owner};
use crate::{Key, label_value};

/// Longest owner that is read back. Anyone can label a container.
const MAX_OWNER: usize = 4096;

/// Names of labels.
pub(in crate::backends::docker) mod label {
    /// `1` on every container of Vestal's.
    pub(in crate::backends::docker) const AGENT: &str = "vestal-agent";
    /// The task, as far as a label can carry it.
    pub(in crate::backends::docker) const TASK: &str = "vestal-task-id";
    /// The profile, as far as a label can carry it.
    pub(in crate::backends::docker) const PROFILE: &str = "vestal-profile";
    /// Hash of the key: this one decides whose a container is.
    pub(in crate::backends::docker) const KEY: &str = "vestal-key";
    /// The profile home.
    pub(in crate::backends::docker) const HOME: &str = "vestal-home";
    /// The instance.
    pub(in crate::backends::docker) const INSTANCE: &str = "vestal-instance";
    /// Hash of the settings it was made with.
    pub(in crate::backends::docker) const SPEC: &str = "vestal-spec";
    /// `1` when it outlives processes, else `0`.
    pub(in crate::backends::docker) const PERSIST: &str = "vestal-persist";
    /// Number of the instance among the sandbox's.
    pub(in crate::backends::docker) const GENERATION: &str = "vestal-generation";
    /// The process it ends with.
    pub(in crate::backends::docker) const OWNER: &str = "vestal-owner";
    /// Name of the image it was made from.
    pub(in crate::backends::docker) const IMAGE: &str = "vestal-image";
}

/// What the labels of a container say. They are claims: whoever may use the
/// engine can write any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) struct Marks {
    /// Hash of the key.
    pub key: String,
    /// The profile home.
    pub home: String,
    /// The instance.
    pub instance: String,
    /// The task, as far as a label can carry it.
    pub task: String,
    /// The profile, as far as a label can carry it.
    pub profile: String,
    /// Number of the instance among the sandbox's.
    pub generation: u64,
    /// Whether it was made to outlive processes.
    pub persistent: bool,
    /// The process it ends with.
    pub owner: Option<Owner>,
    /// Hash of the settings it was made with.
    pub spec: String,
    /// Name of the image it was made from.
    pub image: Option<String>,
}

impl Marks {
    /// Reads the labels of a container; nothing when they are not all there and
    /// well-formed, so that it cannot have been made by us.
    pub(in crate::backends::docker) fn parse(labels: &HashMap<String, String>) -> Option<Self> {
        let get = |name: &str| labels.get(name).map(String::as_str);
        let id = |name: &str| get(name).filter(|text| is_id(text)).map(str::to_owned);
        if get(label::AGENT) != Some("1") {
            return None;
        }
        let persistent = match get(label::PERSIST)? {
            "1" => true,
            "0" => false,
            _ => return None,
        };
        let word = |name: &str| crate::label_value(get(name).unwrap_or_default());
        Some(Self {
            key: id(label::KEY)?,
            home: id(label::HOME)?,
            instance: id(label::INSTANCE)?,
            task: word(label::TASK),
            profile: word(label::PROFILE),
            generation: get(label::GENERATION)?.parse().ok()?,
            persistent,
            // An image that was committed from a container of ours brings its
            // labels along: one that outlives processes may carry an owner.
            owner: get(label::OWNER)
                .filter(|text| !persistent && text.len() <= MAX_OWNER)
                .and_then(|text| serde_json::from_str(text).ok()),
            spec: id(label::SPEC)?,
            image: get(label::IMAGE).filter(|name| is_printable(name)).map(str::to_owned),
        })
    }
}

/// Returns whether a text can be one of our ids or hashes: one that may stand
/// in a path, in a name and on a terminal.
fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_printable(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the labels of a container.
pub(super) fn labels(blueprint: &Blueprint<'_>) -> Result<HashMap<String, String>, BackendError> {
    let extra = &blueprint.settings.extra_args.labels;
    let mut labels: HashMap<String, String> =
        extra.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, value) in blueprint.key.labels() {
        labels.insert(name.to_owned(), value);
    }
    let persist = if blueprint.owner.is_some() { "0" } else { "1" };
    let own = [
        (label::KEY, blueprint.key.hash()),
        (label::HOME, blueprint.home.as_str().to_owned()),
        (label::INSTANCE, blueprint.instance.to_owned()),
        (label::SPEC, blueprint.spec_hash.to_owned()),
        (label::PERSIST, persist.to_owned()),
        (label::GENERATION, blueprint.generation.to_string()),
        (label::IMAGE, blueprint.image.name.clone()),
    ];
    for (name, value) in own {
        labels.insert(name.to_owned(), value);
    }
    if let Some(owner) = blueprint.owner {
        let text = serde_json::to_string(owner).map_err(|error| BackendError::Io {
            action: "write down the owner of a container".to_owned(),
            source: error.into(),
        })?;
        labels.insert(label::OWNER.to_owned(), text);
    }
    Ok(labels)
}

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
