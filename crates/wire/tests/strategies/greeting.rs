//! Greetings, settings and what a guest says of itself.

use proptest::prelude::*;
use vestal_wire::{GuestSettings, Hello, HostRole, SandboxStats, Status, Welcome};

use super::job::environment;
use super::{bytes, few, maybe, text};

pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    fields!(Hello {
        major: any::<u16>(),
        minor: any::<u16>(),
        role: role(),
        instance: maybe(text()),
    })
}

fn role() -> impl Strategy<Value = HostRole> {
    prop_oneof![Just(HostRole::User), Just(HostRole::Observer), Just(HostRole::Owner)]
}

pub(crate) fn welcome() -> impl Strategy<Value = Welcome> {
    fields!(Welcome {
        major: any::<u16>(),
        minor: any::<u16>(),
        program: text(),
        instance: text(),
        key: text(),
        generation: any::<u64>(),
        incarnation: text(),
        boot: text(),
    })
}

pub(crate) fn guest_settings() -> impl Strategy<Value = GuestSettings> {
    fields!(GuestSettings {
        instance: text(),
        key: text(),
        generation: any::<u64>(),
        state_dir: bytes(),
        socket_dir: bytes(),
        retention_ms: maybe(any::<u64>()),
        owner_grace_ms: maybe(any::<u64>()),
        env: environment(),
        home: bytes(),
        start_dir: bytes(),
        log_bytes: any::<u64>(),
        jobs_kept: any::<u32>(),
        previous_instances: few(text()),
        ephemeral: any::<bool>(),
        user: maybe(text()),
        socket_mode: maybe(any::<u32>()),
        inherit_env: any::<bool>(),
        hand_over: few(bytes()),
    })
}

pub(crate) fn status() -> impl Strategy<Value = Status> {
    fields!(Status {
        idle_ms: any::<u64>(),
        expires_in_ms: maybe(any::<u64>()),
        jobs_running: any::<u32>(),
        jobs_known: any::<u32>(),
        up_ms: any::<u64>(),
        last_used_ms: any::<u64>(),
    })
}

pub(crate) fn stats() -> impl Strategy<Value = SandboxStats> {
    fields!(SandboxStats {
        processes: any::<u32>(),
        memory_bytes: any::<u64>(),
        cpu_ms: any::<u64>(),
        log_bytes: any::<u64>(),
        guest_bytes: any::<u64>(),
    })
}
