//! Finds processes that listen where clients look for a gateway, or for the dashboard.
//!
//! A client sends its key to whoever answers. So a sandbox that shares this machine's network may wait
//! for keys at the port of a gateway that is down, or at the other loopback address of one that runs.

use std::net::SocketAddr;

use vestal_api::{
    DASHBOARD_SLOT, ForeignListenerView, GatewayStatusView, GatewayView, ListenerSandboxView,
    api_address,
};
use vestal_config::ProfileName;
use vestal_dashboard::{DashboardSettings, find_instance};
use vestal_gateway::{ForeignListener, StatusAnswer, foreign_listeners};
use vestal_process::PortHolder;
use vestal_supervisor::SlotState;

use super::slots::HomeSlots;
use crate::context::Context;

/// Where clients look for something: a host and a port.
type Address = (String, u16);

/// Adds to each gateway, and to the dashboard, the processes that listen in its place.
pub(super) async fn add_foreign(
    context: &Context,
    slots: &HomeSlots,
    view: &mut GatewayStatusView,
) {
    let mut own: Option<Vec<u32>> = None;
    for gateway in view.gateways.iter_mut().chain(&mut view.dashboard) {
        let own_pid: Vec<u32> = gateway.pid.into_iter().collect();
        let found = addresses(slots, gateway)
            .into_iter()
            .flat_map(|(host, port)| foreign_listeners(&host, port, &own_pid));
        for ForeignListener { address, holder } in found.collect::<Vec<_>>() {
            // Profiles that are set to one port are named elsewhere.
            if own.is_none() {
                own = Some(processes_of_home(slots).await);
            }
            let is_own = |holder: &PortHolder| own.iter().flatten().any(|pid| *pid == holder.pid);
            if holder.as_ref().is_some_and(is_own) {
                continue;
            }
            let sandbox = holder.as_ref().and_then(|holder| sandbox_of(context, slots, holder));
            let (pid, process) = holder.map(|holder| (holder.pid, holder.name)).unzip();
            let address = address.to_string();
            let listener = ForeignListenerView { address, pid, process, sandbox };
            if !gateway.foreign_listeners.contains(&listener) {
                gateway.foreign_listeners.push(listener);
            }
        }
    }
}

/// Returns where clients look for a gateway or for the dashboard.
fn addresses(slots: &HomeSlots, gateway: &GatewayView) -> Vec<Address> {
    let reported = gateway.listeners.iter().filter_map(|part| part.address.as_deref());
    let reported = reported.flat_map(|addresses| addresses.split(" and "));
    let reported: Vec<Address> = reported
        .filter_map(|address| address.trim_start_matches("http://").parse::<SocketAddr>().ok())
        .map(|address| (address.ip().to_string(), address.port()))
        .collect();
    if gateway.state == SlotState::Running && !reported.is_empty() {
        return reported;
    }
    if gateway.profile == DASHBOARD_SLOT {
        // One that nobody has ever wanted is not looked for.
        let is_used = gateway.desired.is_some() || gateway.state != SlotState::Stopped;
        let settings = slots.settings(&ProfileName::default_profile());
        let settings = DashboardSettings::new(&settings, None, None).ok().filter(|_| is_used);
        let address = settings.map(|found| (found.host.to_string(), found.port));
        return address.filter(|(_, port)| *port != 0).into_iter().collect();
    }
    let Ok(profile) = ProfileName::new(&gateway.profile) else { return Vec::new() };
    let address = api_address(&slots.settings(&profile)).ok().flatten();
    let address = address.and_then(|(host, port)| Some((host, u16::try_from(port).ok()?)));
    address.into_iter().collect()
}

/// Returns the gateways of all profiles and the dashboard that run.
async fn processes_of_home(slots: &HomeSlots) -> Vec<u32> {
    let mut pids: Vec<u32> =
        find_instance(&slots.run_dir()).map(|found| found.process.pid).into_iter().collect();
    for profile in slots.root().profiles() {
        let home = slots.root().sibling(profile).dir();
        if let Ok(StatusAnswer::Answers(state)) = vestal_gateway::ask_status(&home).await {
            pids.push(state.pid);
        }
    }
    pids
}

/// Returns the sandbox of a profile of this home that a process runs in.
fn sandbox_of(
    context: &Context,
    slots: &HomeSlots,
    holder: &PortHolder,
) -> Option<ListenerSandboxView> {
    let family: Vec<u32> =
        std::iter::once(holder.pid).chain(holder.parents.iter().copied()).collect();
    slots.root().profiles().into_iter().find_map(|profile| {
        // An engine makes the home that it is opened in.
        let home = slots.root().sibling(profile.clone());
        let engine = home.dir().is_dir().then(|| context.engine_of(home).ok())??;
        let task = engine.sandbox_of_processes(&family)?;
        Some(ListenerSandboxView { profile: profile.to_string(), task: task.to_string() })
    })
}
