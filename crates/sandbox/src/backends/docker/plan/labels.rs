//! Labels and names of containers.

use std::collections::HashMap;

use super::blueprint::Blueprint;
use crate::backend::{BackendError, Owner};
use crate::{Key, label_value};

/// Longest owner label that is parsed. Anyone can label a container.
const MAX_OWNER: usize = 4096;

/// Names of labels.
pub(in crate::backends::docker) mod label {
    /// `1` on every container that Vestal makes.
    pub(in crate::backends::docker) const AGENT: &str = "vestal-agent";
    /// The task, sanitised for a label.
    pub(in crate::backends::docker) const TASK: &str = "vestal-task-id";
    /// The profile, sanitised for a label.
    pub(in crate::backends::docker) const PROFILE: &str = "vestal-profile";
    /// Hash of the key. This label decides which sandbox a container belongs to.
    pub(in crate::backends::docker) const KEY: &str = "vestal-key";
    /// The profile home.
    pub(in crate::backends::docker) const HOME: &str = "vestal-home";
    pub(in crate::backends::docker) const INSTANCE: &str = "vestal-instance";
    /// Hash of the settings it was made with.
    pub(in crate::backends::docker) const SPEC: &str = "vestal-spec";
    /// `1` if it outlives processes, else `0`.
    pub(in crate::backends::docker) const PERSIST: &str = "vestal-persist";
    /// Generation of the instance.
    pub(in crate::backends::docker) const GENERATION: &str = "vestal-generation";
    /// The process it ends with.
    pub(in crate::backends::docker) const OWNER: &str = "vestal-owner";
    /// Name of the image it was made from.
    pub(in crate::backends::docker) const IMAGE: &str = "vestal-image";
}

/// The parsed labels of a container. They prove nothing: anyone who may use the
/// engine can write any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) struct ContainerLabels {
    /// Hash of the key.
    pub key: String,
    /// The profile home.
    pub home: String,
    /// The instance.
    pub instance: String,
    /// The task, sanitised for a label.
    pub task: String,
    /// The profile, sanitised for a label.
    pub profile: String,
    /// Generation of the instance.
    pub generation: u64,
    /// Whether it outlives processes.
    pub persistent: bool,
    /// The process it ends with.
    pub owner: Option<Owner>,
    /// Hash of the settings it was made with.
    pub spec: String,
    /// Name of the image it was made from.
    pub image: Option<String>,
}

impl ContainerLabels {
    /// Parses the labels of a container; `None` unless all are present and
    /// well-formed.
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
            // A container that outlives processes may have the owner label of an
            // image that was committed from another container.
            owner: get(label::OWNER)
                .filter(|text| !persistent && text.len() <= MAX_OWNER)
                .and_then(|text| serde_json::from_str(text).ok()),
            spec: id(label::SPEC)?,
            image: get(label::IMAGE).filter(|name| is_printable(name)).map(str::to_owned),
        })
    }
}

/// Returns whether a text can be an id or hash of Vestal's: it is safe in a path,
/// in a name and on a terminal.
fn is_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_printable(text: &str) -> bool {
    (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the labels of a container to create.
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
            action: "encode the owner of a container".to_owned(),
            source: error.into(),
        })?;
        labels.insert(label::OWNER.to_owned(), text);
    }
    Ok(labels)
}

/// Most characters of the task in a name.
const TASK: usize = 30;

/// Returns the name of a sandbox's container. A container that outlives processes
/// has the same name no matter which process makes it, so that the engine refuses a second one. A
/// container that a process owns has the instance in its name.
pub(in crate::backends::docker) fn container_name(key: &Key, instance: Option<&str>) -> String {
    name(key.task().as_str(), &key.hash(), instance)
}

/// Returns the name of a container with these labels.
pub(in crate::backends::docker) fn name_from_labels(
    labels: &ContainerLabels,
    instance: Option<&str>,
) -> String {
    name(&labels.task, &labels.key, instance)
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
