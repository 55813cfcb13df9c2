use super::*;
use crate::settings::testing::TestHome;

fn of(sets: &[&str]) -> Vec<String> {
    contradictions(&TestHome::new().settings(&[], sets)).expect("each is right by itself")
}

#[test]
fn settings_that_go_together_are_no_contradiction() {
    assert_eq!(of(&[]), [""; 0]);
    assert_eq!(
        of(&[
            "terminal.docker_volumes=[\"/a:/a\"]",
            "terminal.docker_extra_args=[\"--tmpfs=/b\", \"--network=none\", \"--memory-swap=6g\"]",
            "terminal.docker_mount_cwd_to_workspace=true",
            "terminal.docker_network=false",
        ]),
        [""; 0]
    );
}

#[test]
fn two_mounts_at_one_place_are_found_across_keys() {
    assert_eq!(
        of(&[
            "terminal.docker_volumes=[\"/a:/workspace/\", \"/b:/b\"]",
            "terminal.docker_extra_args=[\"--tmpfs=/b\", \"--mount=type=tmpfs,dst=/c\"]",
            "terminal.docker_mount_cwd_to_workspace=true",
        ]),
        [
            "terminal.docker_volumes (--set terminal.docker_volumes) and terminal.docker_extra_args \
             (--set terminal.docker_extra_args) both mount something at /b; remove one of them",
            "terminal.docker_mount_cwd_to_workspace (--set terminal.docker_mount_cwd_to_workspace) and \
             terminal.docker_volumes (--set terminal.docker_volumes) both mount something at /workspace; \
             remove one of them",
        ]
    );
    let extra = of(&[
        "terminal.docker_extra_args=[\"--tmpfs=/workspace\"]",
        "terminal.docker_mount_cwd_to_workspace=true",
    ]);
    assert_eq!(extra.len(), 1, "{extra:?}");
}

#[test]
fn a_network_that_is_off_is_not_used() {
    let off = "terminal.docker_network=no";
    let found = of(&[off, "terminal.docker_extra_args=[\"--network=bridge\"]"]);
    assert_eq!(
        found,
        ["terminal.docker_network (--set terminal.docker_network) is false, but \
          terminal.docker_extra_args (--set terminal.docker_extra_args) has --network bridge; \
          remove one of them"]
    );
    let publish = "terminal.docker_extra_args=[\"-p\", \"80\"]";
    assert_eq!(of(&[off, publish]).len(), 1);
    assert_eq!(of(&[publish]).len(), 0);
    let host = "terminal.docker_extra_args=[\"-p\", \"80\", \"--net=host\"]";
    assert_eq!(of(&[host]).len(), 1);
}

#[test]
fn limits_of_memory_fit_together() {
    let swap = |size: &str| format!("terminal.docker_extra_args=[\"--memory-swap={size}\"]");
    assert_eq!(of(&[&swap("1g")]).len(), 1);
    assert_eq!(of(&[&swap("-1")]).len(), 0);
    assert_eq!(of(&[&swap("1g"), "terminal.container_memory=512"]).len(), 0);
    assert_eq!(of(&[&swap("1g"), "terminal.container_memory=0"]).len(), 1);
    let reserve = "terminal.docker_extra_args=[\"--memory-reservation=1g\"]";
    assert_eq!(of(&[reserve]).len(), 0);
    assert_eq!(of(&[reserve, "terminal.container_memory=512"]).len(), 1);
}

#[test]
fn a_key_without_a_value_is_an_error() {
    let settings = TestHome::new().settings(&[("TERMINAL_DOCKER_VOLUMES", "[\"x\"]")], &[]);
    assert!(contradictions(&settings).is_err());
}

#[test]
fn commands_run_as_one_user_only() {
    let user = "terminal.docker_extra_args=[\"--user=app\"]";
    assert_eq!(of(&[user]), [""; 0]);
    let found = of(&[user, "terminal.docker_run_as_host_user=true"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("--user app"), "{found:?}");
}
