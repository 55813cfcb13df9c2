//! Attempts to get out of a native sandbox.
//!
//! One list of cases, each named for the promise it keeps, run by root and by an
//! ordinary user, on the machine's own system and on another one. An attack that
//! could never succeed proves nothing: so each case is also run as a control in
//! a sandbox on backend `local`, which promises no protection, and there every
//! attempt must reach what it is after.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a case that cannot go on has failed")]

mod cases;
mod cell;
mod documented;
mod planted;
#[path = "../conformance/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the conformance suite uses all of it")]
mod support;

/// Makes tests of a list of cases in one kind of cell.
macro_rules! tests {
    ($cell:ident { $($file:ident: { $($case:ident),+ $(,)? })* }) => {
        $($(
            #[tokio::test]
            async fn $case() {
                let cell = crate::cell::Cell::$cell().await;
                crate::cases::$file::$case(&cell).await;
                cell.finish().await;
            }
        )+)*
    };
}

/// The same, run by an ordinary user.
macro_rules! tests_of_user {
    ($module:literal $cell:ident { $($file:ident: { $($case:ident),+ $(,)? })* }) => {
        $($(
            #[test]
            fn $case() {
                let test = concat!($module, "::", stringify!($case));
                crate::planted::as_user(test, async {
                    let cell = crate::cell::Cell::$cell().await;
                    crate::cases::$file::$case(&cell).await;
                    cell.finish().await;
                });
            }
        )+)*
    };
}

/// Makes modules of tests of the lists of cases.
macro_rules! escapes {
    (everywhere $everywhere:tt enclosed $enclosed:tt several_users $several_users:tt) => {
        mod local {
            mod control {
                tests!(local $everywhere);
                tests!(local $several_users);
            }
        }
        mod native {
            mod overlay {
                tests!(native $everywhere);
                tests!(native $enclosed);
                tests!(native $several_users);
                tests!(native { users: { commands_can_be_somebody_else_than_root } });
            }
            mod rootfs {
                tests!(rootfs $everywhere);
                tests!(rootfs $enclosed);
                tests!(rootfs $several_users);
            }
        }
        mod native_user {
            mod read_only {
                tests_of_user!("native_user::read_only" native $everywhere);
                tests_of_user!("native_user::read_only" native $enclosed);
                tests_of_user!("native_user::read_only" native $several_users);
                tests_of_user!("native_user::read_only" native {
                    users: { commands_can_be_somebody_else_than_root }
                });
            }
            // By who has no subordinate ids.
            mod alone {
                tests_of_user!("native_user::alone" alone {
                    users: { commands_have_no_power_and_gain_none }
                });
            }
            mod rootfs {
                tests_of_user!("native_user::rootfs" rootfs $everywhere);
                tests_of_user!("native_user::rootfs" rootfs $enclosed);
                tests_of_user!("native_user::rootfs" rootfs $several_users);
            }
        }
    };
}

escapes! {
    everywhere {
        files: {
            secrets_of_the_host_cannot_be_read,
            files_of_the_host_cannot_be_written,
            the_guests_program_cannot_be_replaced,
            variables_of_the_host_are_not_handed_on,
        }
        users: {
            processes_of_the_host_are_not_seen,
            processes_of_the_host_cannot_be_touched,
        }
        sockets: {
            sockets_of_the_host_cannot_be_reached,
            abstract_sockets_of_the_host_cannot_be_reached,
            strange_sockets_cannot_be_made,
        }
        calls: {
            mounts_cannot_be_changed,
            namespaces_can_be_neither_made_nor_entered,
            calls_that_widen_the_kernels_reach_are_refused,
            calls_that_rule_the_machine_are_refused,
            keys_of_the_kernel_are_out_of_reach,
            nothing_is_typed_into_terminals,
            other_ways_into_the_kernel_are_closed,
        }
        kernel_files: {
            settings_of_the_kernel_cannot_be_changed,
            memory_and_logs_of_the_kernel_cannot_be_read,
        }
        users: {
            root_of_the_host_is_nobody_there,
        }
    }
    // What only makes sense in a place that can be left.
    enclosed {
        files: {
            people_of_the_host_are_not_named,
            changes_to_the_system_stay_inside,
        }
        users: {
            a_signal_to_everybody_stays_inside,
            the_first_process_cannot_be_taken_over,
        }
        sockets: {
            without_a_network_there_is_nothing_but_a_loopback,
            sockets_of_engines_are_not_there,
        }
        kernel_files: {
            there_are_no_devices_but_the_harmless_ones,
        }
        users: {
            commands_have_no_power_and_gain_none,
            what_the_kernel_counts_for_a_user_is_not_used_up,
        }
        links: {
            links_in_the_files_of_a_sandbox_are_not_followed_at_its_start,
            links_where_something_is_to_be_mounted_are_not_followed,
            links_in_the_guests_directories_are_not_followed,
            links_are_removed_and_not_what_they_name,
            links_are_copied_and_not_what_they_name,
        }
        mounts: {
            a_mount_that_another_sandbox_has_replaced_is_refused,
            the_home_of_vestal_is_covered_in_what_is_mounted,
        }
    }
    // What takes a user who is not root in the sandbox.
    several_users {
        users: {
            set_uid_programs_give_nothing,
        }
        kernel_files: {
            devices_cannot_be_made,
        }
    }
}

#[test]
fn every_test_that_the_document_names_exists() {
    documented::every_test_that_the_document_names_exists();
}

#[test]
fn every_attack_is_in_the_document() {
    documented::every_attack_is_in_the_document();
}
