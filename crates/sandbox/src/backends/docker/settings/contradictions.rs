//! Settings of containers that are right each by itself but not together.

use vestal_config::{AnyKey as _, ConfigError, Key, Resolved, Setting, Settings};

use crate::settings::keys;

/// Where work is in a container.
const WORKSPACE: &str = "/workspace";

/// Returns what the settings of containers say that cannot be had at once,
/// each with the keys and where they are set. No container can be made as
/// long as there is any. An error is about a key that has no value at all.
pub(super) fn contradictions(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let mut found = Vec::new();
    mounts_at_one_place(settings, &mut found)?;
    networks(settings, &mut found)?;
    memory(settings, &mut found)?;
    users(settings, &mut found)?;
    Ok(found)
}

fn mounts_at_one_place(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let volumes = settings.get(&keys::DOCKER_VOLUMES)?;
    let extra = settings.get(&keys::DOCKER_EXTRA_ARGS)?;
    let cwd = settings.get(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE)?;
    let of_volumes = named(&keys::DOCKER_VOLUMES, &volumes);
    let of_extra = named(&keys::DOCKER_EXTRA_ARGS, &extra);
    let taken = |target: &str| volumes.value.iter().any(|volume| volume.target == target);
    for target in extra.value.targets().filter(|target| taken(target)) {
        found.push(format!(
            "{of_volumes} and {of_extra} both mount something at {target}; remove one of them"
        ));
    }
    if !cwd.value {
        return Ok(());
    }
    let of_cwd = named(&keys::DOCKER_MOUNT_CWD_TO_WORKSPACE, &cwd);
    let others =
        [(of_volumes, taken(WORKSPACE)), (of_extra, extra.value.targets().any(is_workspace))];
    for (other, _) in others.into_iter().filter(|(_, taken)| *taken) {
        found.push(format!(
            "{of_cwd} and {other} both mount something at {WORKSPACE}; remove one of them"
        ));
    }
    Ok(())
}

fn networks(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let network = settings.get(&keys::DOCKER_NETWORK)?;
    let extra = settings.get(&keys::DOCKER_EXTRA_ARGS)?;
    let of_extra = named(&keys::DOCKER_EXTRA_ARGS, &extra);
    let chosen = extra.value.network.as_deref();
    if let Some(name) = chosen.filter(|name| !network.value && *name != "none") {
        found.push(format!(
            "{} is false, but {of_extra} has --network {name}; remove one of them",
            named(&keys::DOCKER_NETWORK, &network)
        ));
    }
    if extra.value.publish.is_empty() {
        return Ok(());
    }
    let shared = |name: &&str| matches!(*name, "none" | "host") || name.starts_with("container:");
    if let Some(name) = chosen.filter(shared) {
        found.push(format!(
            "{of_extra} has --publish, which has no effect with --network {name}; remove it"
        ));
    } else if !network.value {
        found.push(format!(
            "{} is false, but {of_extra} has --publish; remove one of them",
            named(&keys::DOCKER_NETWORK, &network)
        ));
    }
    Ok(())
}

fn users(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let as_host = settings.get(&keys::DOCKER_RUN_AS_HOST_USER)?;
    let extra = settings.get(&keys::DOCKER_EXTRA_ARGS)?;
    if let Some(user) = extra.value.user.as_deref().filter(|_| as_host.value) {
        found.push(format!(
            "{} is true, but {} has --user {user}; remove one of them",
            named(&keys::DOCKER_RUN_AS_HOST_USER, &as_host),
            named(&keys::DOCKER_EXTRA_ARGS, &extra)
        ));
    }
    Ok(())
}

fn memory(settings: &Settings, found: &mut Vec<String>) -> Result<(), ConfigError> {
    let memory = settings.get(&keys::CONTAINER_MEMORY)?;
    let extra = settings.get(&keys::DOCKER_EXTRA_ARGS)?;
    let of_extra = named(&keys::DOCKER_EXTRA_ARGS, &extra);
    let of_memory = named(&keys::CONTAINER_MEMORY, &memory);
    let limit = memory.value.bytes().and_then(|bytes| i64::try_from(bytes).ok());
    let swap = extra.value.memory_swap.filter(|swap| *swap != -1);
    match (limit, swap) {
        (None, Some(_)) => found.push(format!(
            "{of_extra} has --memory-swap, which needs a limit of memory, but {of_memory} is 0"
        )),
        (Some(limit), Some(swap)) if swap < limit => found.push(format!(
            "{of_extra} has a --memory-swap below {of_memory}, which it includes; raise it"
        )),
        _ => {}
    }
    if let (Some(limit), Some(reserved)) = (limit, extra.value.memory_reservation)
        && reserved > limit
    {
        found.push(format!("{of_extra} has a --memory-reservation above {of_memory}; lower it"));
    }
    Ok(())
}

fn is_workspace(target: &str) -> bool {
    target == WORKSPACE
}

/// Returns a key's name with where its value came from.
fn named<T: Setting>(key: &Key<T>, resolved: &Resolved<T>) -> String {
    format!("{} ({})", key.name(), resolved.source)
}

#[cfg(test)]
#[path = "contradictions_tests.rs"]
mod tests;
