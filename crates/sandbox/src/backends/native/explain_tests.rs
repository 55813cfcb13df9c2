use super::*;

fn failure(step: &str, errno: i32) -> StageFailure {
    StageFailure {
        step: step.to_owned(),
        target: Some("/usr".to_owned()),
        errno: Some(errno),
        message: "refused".to_owned(),
    }
}

fn host(sysctls: &[(&'static str, &str)]) -> HostState {
    HostState {
        sysctls: sysctls.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        layers: "/home/ada/.vestal/sandboxes".into(),
        filesystem: None,
        is_root: false,
    }
}

/// Returns problem and advice of an error that has both.
fn words(error: &BackendError) -> (String, String) {
    assert!(error.is_final(), "another attempt would not help: {error}");
    (error.to_string(), error.advice().unwrap().to_owned())
}

#[test]
fn a_switch_that_forbids_is_named_with_its_value_and_the_command_that_changes_it() {
    let cases = [
        (
            "user-namespace",
            EPERM,
            USERNS_CLONE,
            "0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        ("user-namespace", ENOSPC, MAX_USERNS, "0", "sysctl -w user.max_user_namespaces=15000"),
        ("namespaces", EPERM, USERNS_CLONE, "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        // Ubuntu lets you unshare, and then denies the mount.
        ("private-mounts", EACCES, APPARMOR_USERNS, "1", "restrict_unprivileged_userns=0"),
        ("mount-memory", EPERM, APPARMOR_USERNS, "1", "restrict_unprivileged_userns=0"),
        ("map-users", EPERM, APPARMOR_USERNS, "1", "restrict_unprivileged_userns=0"),
    ];
    for (step, errno, name, value, command) in cases {
        let (problem, advice) = words(&explain(&failure(step, errno), &host(&[(name, value)])));
        assert!(problem.contains(&format!("{name} is {value}")), "{step}: {problem}");
        assert!(advice.contains(command), "{step}: {advice}");
    }
}

#[test]
fn apparmor_is_named_where_it_restricts() {
    let (problem, _) =
        words(&explain(&failure("mount-proc", EPERM), &host(&[(APPARMOR_USERNS, "1")])));
    assert!(problem.starts_with("AppArmor does not let ordinary users"), "{problem}");
    // It does not restrict root, nor where it is switched off.
    let root = HostState { is_root: true, ..host(&[(APPARMOR_USERNS, "1")]) };
    for host in [root, host(&[(APPARMOR_USERNS, "0")])] {
        let (problem, advice) = words(&explain(&failure("mount-memory", EPERM), &host));
        assert!(problem.starts_with("mounts are denied"), "{problem}");
        assert!(advice.contains("backend"), "{advice}");
    }
}

#[test]
fn without_a_known_cause_the_advice_still_names_a_next_step() {
    let open = host(&[(MAX_USERNS, "100")]);
    for errno in [EPERM, EINVAL, ENOSPC] {
        let (problem, advice) = words(&explain(&failure("user-namespace", errno), &open));
        assert!(!problem.is_empty() && !advice.is_empty());
        assert_eq!(problem.contains("user.max_user_namespaces is 100"), errno == ENOSPC);
    }
    let (problem, advice) = words(&explain(&failure("mount-proc", EPERM), &open));
    assert!(problem.contains("/proc"), "{problem}");
    assert!(advice.contains("systempaths=unconfined"), "{advice}");
    let (_, advice) = words(&explain(&failure("map-users", EPERM), &open));
    assert!(advice.contains("/etc/subuid"), "{advice}");
}

#[test]
fn a_filesystem_that_cannot_hold_layers_is_named() {
    for (kind, errno) in [("overlay", EINVAL), ("NFS", EOPNOTSUPP), ("NFS", EPERM)] {
        let host = HostState { filesystem: Some(kind), ..host(&[]) };
        for step in ["mount-layers", "mount-root"] {
            let (problem, advice) = words(&explain(&failure(step, errno), &host));
            assert!(problem.contains("/home/ada/.vestal/sandboxes is"), "{problem}");
            assert!(problem.contains(kind), "{problem}");
            assert!(advice.contains("terminal.sandbox_dir"), "{advice}");
        }
    }
    assert_eq!(unfit_filesystem(0x794c_7630_i64), Some("overlay"));
    assert_eq!(unfit_filesystem(0xef53_i64), None, "ext4");
    assert_eq!(unfit_filesystem(0x0102_1994_i64), None, "memory");
}

#[test]
fn layers_of_two_homes_and_a_full_disk_are_distinguished() {
    let (problem, advice) = words(&explain(&failure("mount-layers", EBUSY), &host(&[])));
    assert!(problem.contains("two homes"), "{problem}");
    assert!(advice.contains("terminal.sandbox_dir"), "{advice}");
    for (step, errno) in [("target", ENOSPC), ("mount-layers", ENOSPC), ("record", EDQUOT)] {
        let (problem, advice) = words(&explain(&failure(step, errno), &host(&[])));
        assert!(problem.starts_with("there is no space left"), "{problem}");
        assert!(advice.contains("/home/ada/.vestal/sandboxes"), "{advice}");
    }
}

#[test]
fn an_old_kernel_is_reported_with_the_needed_version() {
    let root = HostState { is_root: true, ..host(&[]) };
    let (_, layers) = words(&explain(&failure("mount-layers", EINVAL), &root));
    assert!(layers.contains("5.19"), "{layers}");
    let (_, bind) = words(&explain(&failure("mount-bind", EOPNOTSUPP), &root));
    assert!(bind.contains("5.12") && bind.contains("idmapped"), "{bind}");
}

#[test]
fn what_is_the_instances_own_is_not_final() {
    for (step, errno) in [("exec", 8), ("target", 20), ("mount-bind", 20), ("ended", 0)] {
        let error = explain(&failure(step, errno), &host(&[]));
        assert!(!error.is_final(), "{step}: {error}");
        assert!(error.to_string().contains(step), "{error}");
    }
    let (problem, _) = words(&explain(&failure("source", ENOENT), &host(&[])));
    assert_eq!(problem, "/usr does not exist");
}

#[test]
fn this_machine_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let host = HostState::read(&dir.path().join("not/yet/made"));
    assert_eq!(host.layers, dir.path().join("not/yet/made"));
    assert_eq!(host.is_root, rustix::process::geteuid().is_root());
}
