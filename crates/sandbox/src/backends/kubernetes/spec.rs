//! The settings that shape pods, and which of their changes isolate more.

use vestal_config::{AnyKey as _, ConfigError, Settings};

use super::settings::{self, PodSettings};
use crate::backends::own_system::{self, ResourceLimits, flag};
use crate::settings::keys;
use crate::spec::Tightening;
use crate::{Overrides, Spec};

/// Returns the rule for a setting that shapes pods.
pub(super) fn tightening(key: &str) -> Tightening {
    // A list of destinations isolates more than none, and a shorter one more than a longer.
    let any = [
        settings::KUBERNETES_RUN_AS_USER.name(),
        settings::KUBERNETES_RUNTIME_CLASS.name(),
        settings::KUBERNETES_EGRESS.name(),
    ];
    if any.contains(&key) {
        Tightening::Any
    } else if key == settings::KUBERNETES_CLAIMS.name() {
        Tightening::Fewer
    } else {
        own_system::tightening(key)
    }
}

/// Returns what is not the default of a pod's settings.
pub(super) fn spec_of(settings: &Settings, overrides: &Overrides) -> Result<Spec, ConfigError> {
    let pod = PodSettings::read(settings, overrides)?;
    let default_image = settings::KUBERNETES_IMAGE.default_value().to_string();
    let claims: Vec<String> = pod.claims.iter().map(settings::MountedClaim::to_text).collect();
    let claims = (!claims.is_empty()).then(|| serde_json::Value::from(claims).to_string());
    let labels: Vec<String> =
        pod.node_labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let egress: Vec<String> = pod.egress.iter().map(|rule| rule.to_text()).collect();
    let egress = (!egress.is_empty()).then(|| serde_json::Value::from(egress).to_string());
    let reserve = pod.reserve;
    let network = settings.get(&keys::DOCKER_NETWORK)?.value;
    let persistent = settings.get(&keys::CONTAINER_PERSISTENT)?.value;
    let cluster = settings::cluster(settings)?;
    let values = [
        (settings::KUBERNETES_NAMESPACE.name(), cluster.as_ref().map(|it| it.namespace.clone())),
        (settings::KUBERNETES_CONTEXT.name(), cluster.and_then(|it| it.context)),
        (settings::KUBERNETES_IMAGE.name(), Some(pod.image).filter(|it| *it != default_image)),
        (settings::KUBERNETES_CLAIMS.name(), claims),
        (settings::KUBERNETES_RUN_AS_USER.name(), pod.user.map(|user| user.to_string())),
        (settings::KUBERNETES_SERVICE_ACCOUNT.name(), pod.service_account),
        (settings::KUBERNETES_NODE_SELECTOR.name(), (!labels.is_empty()).then(|| labels.join(","))),
        (settings::KUBERNETES_RUNTIME_CLASS.name(), pod.runtime_class),
        (
            settings::KUBERNETES_RESERVE.name(),
            (reserve != *settings::KUBERNETES_RESERVE.default_value())
                .then(|| reserve.as_str().to_owned()),
        ),
        (settings::KUBERNETES_EGRESS.name(), egress),
        (keys::DOCKER_NETWORK.name(), flag(network, *keys::DOCKER_NETWORK.default_value())),
        (
            keys::CONTAINER_PERSISTENT.name(),
            flag(persistent, *keys::CONTAINER_PERSISTENT.default_value()),
        ),
    ];
    let values = values.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let limits = ResourceLimits::read(settings)?;
    Ok(values
        .chain(limits.to_spec())
        .fold(Spec::default(), |spec, (key, value)| spec.with(key, &value, tightening(key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_isolates_more_is_known_of_every_setting_of_pods() {
        assert_eq!(tightening("terminal.kubernetes_run_as_user"), Tightening::Any);
        assert_eq!(tightening("terminal.kubernetes_runtime_class"), Tightening::Any);
        assert_eq!(tightening("terminal.kubernetes_egress"), Tightening::Any);
        assert_eq!(tightening("terminal.kubernetes_claims"), Tightening::Fewer);
        assert_eq!(tightening("terminal.docker_network"), Tightening::Off);
        assert_eq!(tightening("terminal.kubernetes_image"), Tightening::Never);
    }
}
