//! The whole container.

use bollard::models::{ContainerCreateBody, HostConfig};

use super::blueprint::{Blueprint, Plan};
use super::extra_args;
use super::labels::labels;
use super::limits;
use super::name::container_name;
use super::places::Places;
use super::process::{self, First, Users};
use crate::backend::BackendError;
use crate::backends::layout::WORKSPACE;

/// Returns the container that settings and facts call for.
pub(in crate::backends::docker) fn plan(blueprint: &Blueprint<'_>) -> Result<Plan, BackendError> {
    let settings = blueprint.settings;
    if let Some(problem) = settings.contradictions.first() {
        return Err(BackendError::Advised {
            problem: problem.clone(),
            advice: "`vestal config check` lists what contradicts each other".to_owned(),
        });
    }
    let extra = &settings.extra_args;
    let home = settings.user_home.as_deref();
    let first = First::of(blueprint);
    let users = Users::of(blueprint, first);
    let capabilities = users.capabilities(blueprint);
    let places = Places::of(blueprint, first, &users)?;
    let (own_workspace, own_home) = (places.own_workspace, places.own_home);

    let mut host = HostConfig {
        cap_drop: Some(capabilities.drop),
        cap_add: Some(capabilities.add),
        security_opt: Some(extra_args::security(extra, blueprint.info, home)?),
        userns_mode: users.userns.map(str::to_owned),
        network_mode: (!settings.network).then(|| "none".to_owned()),
        auto_remove: Some(blueprint.owner.is_some()),
        // The guest reaps; an init of the engine's would only be in between.
        init: Some(false),
        ..HostConfig::default()
    };
    places.apply(&mut host);
    let unenforced = limits::apply(blueprint, &mut host)?;
    let mut body = ContainerCreateBody {
        image: Some(blueprint.image.id.clone()),
        working_dir: Some(working_dir(blueprint)),
        labels: Some(labels(blueprint)?),
        ..ContainerCreateBody::default()
    };
    process::apply(blueprint, first, &users, &mut body);
    extra_args::apply(extra, blueprint, &mut body, &mut host);
    body.host_config = Some(host);

    let mut weakened = extra.weakens();
    weakened.extend(settings.volumes.weakens());
    if users.gives_up_userns {
        weakened.push("terminal.docker_run_as_host_user goes without user namespaces".to_owned());
    }
    Ok(Plan {
        name: container_name(blueprint.key, blueprint.owner.map(|_| blueprint.instance)),
        body,
        platform: extra.platform.clone(),
        unenforced,
        weakened,
        guest_user: users.jobs,
        own_workspace,
        own_home,
    })
}

/// Returns where the guest starts. An engine makes the directory if there is
/// none.
fn working_dir(blueprint: &Blueprint<'_>) -> String {
    let asked = blueprint.settings.cwd.as_deref().and_then(std::path::Path::to_str);
    asked.unwrap_or(WORKSPACE).to_owned()
}
