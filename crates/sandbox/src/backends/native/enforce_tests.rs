use super::*;
use crate::backends::own_system::Limit;

/// Returns limits of all kinds of which only these are in effect.
fn required(kinds: &[LimitKind]) -> ResourceLimits {
    let all = limits();
    let kept =
        |kind| if kinds.contains(&kind) { all.get(kind) } else { Limit { value: 0, ..all.cpu } };
    ResourceLimits {
        cpu: kept(LimitKind::Cpu),
        memory_mb: kept(LimitKind::Memory),
        disk_mb: kept(LimitKind::Disk),
        pids: kept(LimitKind::Pids),
        required: true,
    }
}

fn limits() -> ResourceLimits {
    let limit = |_, value| Limit { value, set_by_user: true };
    ResourceLimits {
        cpu: limit(LimitKind::Cpu, 1500),
        memory_mb: limit(LimitKind::Memory, 2),
        disk_mb: limit(LimitKind::Disk, 10),
        pids: limit(LimitKind::Pids, 256),
        required: false,
    }
}

fn nothing() -> LimitMechanism {
    LimitMechanism::Groups(Hierarchies::default())
}

#[test]
fn a_limit_that_cannot_hold_is_left_out_and_named() {
    let enforced = nothing().enforce(&limits(), "i1").unwrap();
    let expected = Enforced {
        max_processes: Some(256),
        unenforced: [
            "terminal.container_cpu",
            "terminal.container_memory",
            "terminal.container_disk",
        ]
        .map(str::to_owned)
        .into(),
        ..Enforced::default()
    };
    assert_eq!(enforced, expected);
    nothing().vet(&limits()).unwrap();
}

#[test]
fn a_required_limit_that_cannot_hold_is_refused_by_name() {
    for kind in [LimitKind::Cpu, LimitKind::Memory, LimitKind::Disk] {
        let limits = required(&[kind]);
        let refusals = [nothing().vet(&limits), nothing().enforce(&limits, "i1").map(drop)];
        for refused in refusals {
            let refused = refused.unwrap_err();
            let named =
                matches!(refused, BackendError::Unenforceable { key, .. } if key == kind.key());
            assert!(named, "{refused}");
            assert!(refused.advice().unwrap().contains(kind.key()));
        }
    }
    // Processes are counted by the kernel where nothing else counts them.
    nothing().vet(&required(&[LimitKind::Pids])).unwrap();
    nothing().enforce(&required(&[LimitKind::Pids]), "i1").unwrap();
}

#[test]
fn a_default_that_cannot_hold_is_left_out_also_where_limits_are_required() {
    let of_default = Limit { set_by_user: false, ..limits().disk_mb };
    let limits = ResourceLimits { disk_mb: of_default, ..required(&[]) };
    nothing().vet(&limits).unwrap();
    let enforced = nothing().enforce(&limits, "i1").unwrap();
    assert_eq!(enforced.unenforced, ["terminal.container_disk"]);
}

#[test]
fn nothing_is_asked_of_anyone_for_no_limit() {
    let none = Limit { value: 0, set_by_user: true };
    let limits =
        ResourceLimits { cpu: none, memory_mb: none, disk_mb: none, pids: none, required: true };
    nothing().vet(&limits).unwrap();
    assert_eq!(nothing().enforce(&limits, "i1").unwrap(), Enforced::default());
}

#[test]
fn limits_are_given_to_systemd_as_its_properties() {
    let means = LimitMechanism::Systemd(["cpu", "memory", "pids"].map(str::to_owned).into());
    let enforced = means.enforce(&limits(), "i1").unwrap();
    let expected = Enforced {
        properties: ["CPUQuota=150%", "MemoryMax=2097152", "TasksMax=256"]
            .map(str::to_owned)
            .into(),
        unenforced: vec!["terminal.container_disk".to_owned()],
        ..Enforced::default()
    };
    assert_eq!(enforced, expected);
    let poor = LimitMechanism::Systemd(vec!["memory".to_owned()]);
    let enforced = poor.enforce(&limits(), "i1").unwrap();
    assert_eq!(enforced.max_processes, Some(256));
    assert_eq!(enforced.unenforced, ["terminal.container_cpu", "terminal.container_disk"]);
    assert!(poor.vet(&required(&[LimitKind::Cpu])).is_err());
}
