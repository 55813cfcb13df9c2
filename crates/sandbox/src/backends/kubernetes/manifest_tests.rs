use vestal_config::{Environment, Home, Override, Settings};

use super::*;
use crate::{HomeId, Overrides};

fn key(task: &str) -> Key {
    Key::new(HomeId("h".into()), "p", task.parse().unwrap())
}

fn settings(overrides: &[&str]) -> Settings {
    let schema = crate::schema();
    let overrides = overrides.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
    let environment = Environment::from_pairs(Vec::<(String, String)>::new());
    Settings::load(&schema, Home::at("/nowhere"), environment, overrides)
}

fn egress(places: &str) -> Vec<EgressRule> {
    let settings = settings(&[&format!("terminal.kubernetes_egress={places}")]);
    PodSettings::read(&settings, &Overrides::default()).unwrap().egress
}

fn made(overrides: &[&str]) -> Value {
    let settings = settings(overrides);
    let pod = PodSettings::read(&settings, &Overrides::default()).unwrap();
    let plan = PodPlan {
        key: &key("_a/task_"),
        instance: "0123456789abcdef",
        start: "a1b2c3",
        generation: 1,
        spec: "s",
        owner: None,
        settings: &pod,
        limits: ResourceLimits::read(&settings).unwrap(),
        claim: Some("c"),
        state: Some("e"),
        tree: &FileTree::Top,
    };
    plan.pod().unwrap()
}

#[test]
fn a_pod_is_hardened_and_never_restarted() {
    let pod = made(&[]);
    let spec = &pod["spec"];
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["enableServiceLinks"], false);
    assert_eq!(spec["securityContext"], json!({ "seccompProfile": { "type": "RuntimeDefault" } }));
    assert_eq!(
        spec["containers"][0]["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "privileged": false,
            "capabilities": {
                "drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"],
            },
        })
    );
    for absent in ["hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "runtimeClassName"] {
        assert!(spec.get(absent).is_none(), "{absent}");
    }
    let volumes = spec["volumes"].as_array().unwrap();
    assert!(volumes.iter().all(|volume| volume.get("hostPath").is_none()), "{volumes:?}");
}

#[test]
fn a_pod_of_a_user_fits_the_level_restricted() {
    let pod = made(&["terminal.kubernetes_run_as_user=1000"]);
    let spec = &pod["spec"];
    assert_eq!(
        spec["securityContext"],
        json!({
            "seccompProfile": { "type": "RuntimeDefault" }, "runAsNonRoot": true,
            "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
        })
    );
    let capabilities = &spec["containers"][0]["securityContext"]["capabilities"];
    assert_eq!(*capabilities, json!({ "drop": ["ALL"] }));
    let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/home/vestal"), "{mounts:?}");
}

#[test]
fn limits_are_those_of_containers_and_little_is_reserved() {
    let with = |extra: &[&str]| {
        let limits = [
            "terminal.container_cpu=2",
            "terminal.container_memory=100",
            "terminal.container_disk=0",
        ];
        made(&[&limits, extra].concat())["spec"]["containers"][0]["resources"].clone()
    };
    assert_eq!(
        with(&[]),
        json!({
            "limits": { "cpu": "2000m", "memory": "100Mi" },
            "requests": { "cpu": "10m", "memory": "64Mi" },
        })
    );
    assert_eq!(
        with(&["terminal.kubernetes_reserve=limits"]),
        json!({ "limits": { "cpu": "2000m", "memory": "100Mi" }, "requests": {} })
    );
}

#[test]
fn labels_and_names_are_what_a_cluster_allows() {
    let is_label = |text: &str| {
        let ends = [text.chars().next(), text.chars().next_back()];
        text.len() <= 63
            && (text.is_empty() || ends.iter().flatten().all(char::is_ascii_alphanumeric))
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    };
    for task in ["default", "_a/task_", "🦀", ".hidden", "--x--", &"long ".repeat(40)] {
        let key = key(task);
        let labels = common_labels(&key);
        for (name, value) in labels.as_object().unwrap() {
            assert!(is_label(value.as_str().unwrap()), "{name}: {value}");
        }
        let name = claim_name(&key);
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.len() <= 253 && name.chars().all(inner) && !name.ends_with('-'), "{name}");
    }
    assert_eq!(made(&[])["metadata"]["annotations"]["vestal-task"], "_a/task_");
}

#[test]
fn a_policy_without_rules_allows_nothing_to_its_pod_alone() {
    let settings = settings(&[]);
    let pod = PodSettings::read(&settings, &Overrides::default()).unwrap();
    let plan = PodPlan {
        key: &key("default"),
        instance: "0123456789abcdef",
        start: "a1b2c3",
        generation: 1,
        spec: "s",
        owner: None,
        settings: &pod,
        limits: ResourceLimits::read(&settings).unwrap(),
        claim: None,
        state: None,
        tree: &FileTree::Top,
    };
    let (policy, pod) = (plan.network_policy(&[]), plan.pod().unwrap());
    let chosen = json!({ "vestal-instance": "0123456789abcdef", "vestal-start": "a1b2c3" });
    assert_eq!(
        policy["spec"],
        json!({ "podSelector": { "matchLabels": chosen }, "policyTypes": ["Ingress", "Egress"] })
    );
    // It has the labels by which it is chosen, and no other start of the sandbox has them.
    for (name, value) in chosen.as_object().unwrap() {
        assert_eq!(pod["metadata"]["labels"][name], *value);
    }
    assert_eq!(policy["metadata"]["name"], pod["metadata"]["name"]);

    let policy = plan.network_policy(&egress(r#"["10.0.0.0/8", "192.0.2.7:443"]"#));
    let names =
        [json!({ "protocol": "UDP", "port": 53 }), json!({ "protocol": "TCP", "port": 53 })];
    assert_eq!(
        policy["spec"]["egress"],
        json!([
            { "ports": names },
            { "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] },
            {
                "to": [{ "ipBlock": { "cidr": "192.0.2.7/32" } }],
                "ports": [{ "protocol": "TCP", "port": 443 }],
            },
        ])
    );
    assert_eq!(policy["spec"]["ingress"], json!(null), "nobody connects to it");
}

#[test]
fn what_a_sandbox_does_not_keep_is_in_memory() {
    let settings = settings(&[]);
    let pod = PodSettings::read(&settings, &Overrides::default()).unwrap();
    let plan = PodPlan {
        key: &key("default"),
        instance: "0123456789abcdef",
        start: "a1b2c3",
        generation: 1,
        spec: "s",
        owner: None,
        settings: &pod,
        limits: ResourceLimits::read(&settings).unwrap(),
        claim: None,
        state: None,
        tree: &FileTree::Top,
    };
    let volumes = plan.pod().unwrap()["spec"]["volumes"].clone();
    assert_eq!(volumes[2], json!({ "name": "memory", "emptyDir": { "medium": "Memory" } }));
    assert!(!volumes.to_string().contains("persistentVolumeClaim"), "{volumes}");
}

#[test]
fn a_tree_that_was_copied_is_mounted_by_its_name_and_known_by_its_label() {
    for tree in [FileTree::Top, FileTree::Copied("0123456789abcdef".into())] {
        assert_eq!(FileTree::of(Some(tree.label())), tree);
    }
    assert_eq!(FileTree::of(None), FileTree::Top);
    assert_eq!(FileTree::Top.part("home"), "home");
    assert_eq!(FileTree::Copied("a1".into()).part("home"), "trees/a1/home");
}

#[test]
fn a_pod_that_copies_is_hardened_as_a_sandbox_and_no_instance() {
    let settings = settings(&[]);
    let settings = PodSettings::read(&settings, &Overrides::default()).unwrap();
    let plan = |to, from| HelperPlan {
        name: "vestal-copy-a-b",
        home: "h",
        of: "a",
        settings: &settings,
        to,
        from,
        node: Some("n1"),
    };
    let pod = plan("one", "two").pod();
    let sandbox = made(&[]);
    let container = |pod: &Value| pod["spec"]["containers"][0]["securityContext"].clone();
    assert_eq!(container(&pod), container(&sandbox));
    assert_eq!(pod["spec"]["securityContext"], sandbox["spec"]["securityContext"]);
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert!(pod["metadata"]["labels"].get("vestal-instance").is_none());
    let volumes = |pod: &Value| pod["spec"]["volumes"].as_array().unwrap().len();
    let alone = plan("one", "one").pod();
    assert_eq!((volumes(&pod), volumes(&alone)), (3, 2));
    // What is read is mounted so that nothing changes it, be it the same volume or another.
    for (pod, source) in [(&pod, "from"), (&alone, "to")] {
        let mount = &pod["spec"]["containers"][0]["volumeMounts"][2];
        assert_eq!((&mount["name"], &mount["readOnly"]), (&source.into(), &true.into()));
    }
}
