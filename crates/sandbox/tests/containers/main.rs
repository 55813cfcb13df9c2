//! What only a container engine can show: images, limits, users, and engines
//! that are slow, die and come back.
//!
//! The contract that all backends share is checked by the conformance suite.

#![expect(clippy::unwrap_used, reason = "a case that cannot go on has failed")]

mod cases;
mod support;

/// Declares the cases of a file once and makes a module of tests for each
/// engine that they are about.
macro_rules! containers {
    ($(
        $file:ident on $($engine:ident),+: { $($case:ident),+ $(,)? }
        $(+ docker: { $($more:ident),+ $(,)? })?
    )+) => {
        $(
            mod $file {
                containers!(@engines $file [$($engine)+] [$($case)+] [$($($more)+)?]);
            }
        )+
    };
    (@engines $file:ident [$($engine:ident)+] $cases:tt $more:tt) => {
        $(containers!(@engine $file $engine $cases $more);)+
    };
    (@engine $file:ident docker [$($case:ident)+] [$($more:ident)*]) => {
        containers!(@tests $file docker [$($case)+ $($more)*]);
    };
    (@engine $file:ident $engine:ident $cases:tt $more:tt) => {
        containers!(@tests $file $engine $cases);
    };
    (@tests $file:ident $engine:ident [$($case:ident)+]) => {
        mod $engine {
            $(
                #[tokio::test]
                async fn $case() {
                    let fixture = crate::support::EngineFixture::$engine();
                    crate::cases::$file::$case(fixture).await;
                }
            )+
        }
    };
}

containers! {
    images on docker, podman: {
        a_system_without_bash_is_as_good_as_any,
        a_debian_system_is_as_good_as_any,
        jobs_and_files_are_those_of_the_images_user,
        a_tree_of_the_images_user_can_be_killed,
        a_user_that_the_image_does_not_know_has_a_home,
        the_home_is_filled_from_the_image_once,
        an_entrypoint_is_overridden_unless_it_is_to_be_kept,
        an_init_of_the_image_stays_the_first_process,
        what_an_image_keeps_in_a_volume_goes_with_the_container,
        a_read_only_system_leaves_work_home_and_memory_writable,
    }
    injury on docker, podman: {
        a_container_stopped_killed_paused_or_restarted_is_used_again,
        a_removed_container_is_made_anew_with_its_files,
        an_image_may_go_from_under_its_container,
        a_full_disk_inside_is_an_error_and_nothing_more,
        a_name_that_is_taken_by_a_stranger_is_an_error_that_names_it,
        a_half_made_container_that_nobody_remembers_is_replaced,
    }
    + docker: {
        a_slow_engine_makes_one_container_for_all_who_ask,
        a_directory_to_mount_that_is_not_there_is_an_error_that_names_it,
    }
    reuse on docker, podman: {
        labels_say_whose_a_container_is,
        a_profile_is_on_the_label_and_keeps_its_sandboxes_apart,
        attaching_and_using_asks_the_engine_nothing,
        a_running_container_is_found_by_its_label_when_the_record_is_lost,
        a_stopped_container_is_started_and_not_made,
        only_a_container_that_is_lost_is_set_aside_for_a_fresh_one,
        a_container_that_cannot_be_looked_at_is_kept,
        of_several_containers_the_running_one_is_used,
        an_idle_duplicate_is_stopped_and_a_busy_one_is_reported,
        without_persistence_nothing_is_looked_for,
        an_engine_that_is_not_there_is_an_error_and_changes_nothing,
        cleanup_lets_go_and_force_removes,
        a_sandbox_that_was_never_quite_made_leaves_nothing,
    }
    + docker: {
        a_container_of_an_image_committed_from_a_sandbox_is_never_touched,
    }
    apart on docker, podman: {
        through_the_engine_everything_works_as_by_a_socket,
        much_goes_both_ways_through_the_engine_unharmed,
        published_files_are_sent_and_replaced,
        a_caller_that_dies_leaves_its_job_to_the_next,
        a_removal_keeps_the_volumes_unless_the_files_go_too,
        an_instance_of_one_process_leaves_no_volume,
        where_files_are_not_shared_a_stream_is_used,
    }
    limits on docker, podman: {
        the_defaults_confine_and_the_engine_says_so,
        a_required_limit_holds_or_is_an_error,
        a_limit_that_cannot_be_enforced_is_left_out_and_reported_if_it_was_set,
        a_fork_bomb_hits_the_limit_and_the_sandbox_survives,
        a_memory_hog_is_killed_and_the_guest_is_not,
        settings_that_weaken_isolation_work_and_are_shown,
        an_unknown_argument_for_the_engine_is_an_error_that_names_it,
        no_network_means_none_on_every_path,
        a_network_that_is_taken_away_is_gone_for_the_next_caller,
        changed_limits_and_mounts_are_named_and_applied_on_request,
        secrets_reach_jobs_and_nothing_that_can_be_inspected,
    }
    mounts on docker, podman: {
        a_mount_that_another_container_has_replaced_is_refused,
        the_home_of_vestal_is_covered_in_a_container,
    }
    supply on docker, podman: {
        an_image_that_cannot_be_had_is_an_error_and_leaves_nothing,
        an_image_is_pulled_with_progress_and_its_id_recorded,
    }
    story on docker, podman: {
        a_file_and_a_server_are_there_for_the_next_process,
        a_process_that_keeps_nothing_is_not_gone_before_its_container,
        a_killed_process_that_keeps_nothing_leaves_no_container,
        settings_of_the_environment_shape_the_container,
        each_image_asked_for_has_a_sandbox_of_its_own,
    }
    snapshots on docker, podman: {
        what_is_installed_is_there_after_a_restore_and_in_a_fork,
        an_image_of_a_snapshot_says_nothing_of_us,
        a_copy_is_as_its_first_image_says,
        an_emptied_home_stays_empty_in_a_copy,
        layers_do_not_pile_up,
        an_engine_that_cannot_share_layers_copies_all,
        a_snapshot_outlives_its_sandbox_and_goes_without_a_trace,
        an_interrupted_copy_leaves_no_image,
        an_image_that_a_dead_process_left_is_reaped_when_it_is_old,
        a_copy_is_no_drift_and_settings_that_need_another_give_it_up,
        an_image_that_was_removed_is_an_error_and_changes_nothing,
    }
    soak on docker: {
        a_soak_of_racing_and_dying_processes_leaves_one_sandbox,
    }
    reaper on docker, podman: {
        nothing_to_reap_is_nothing_removed,
        an_old_stopped_container_is_reaped_and_a_recent_one_is_not,
        a_container_of_a_lost_directory_is_reaped_when_it_is_old,
        one_removal_that_fails_does_not_stop_the_others,
        an_engine_that_cannot_list_is_swept_of_nothing_and_used,
        a_disabled_reaper_asks_nothing,
        parallel_creators_sweep_once,
        only_this_homes_containers_are_asked_for,
    }
    + docker: {
        an_unknown_end_reaps_nothing,
    }
}

/// The same for cases that start an engine for themselves, or are about users of
/// one.
macro_rules! with_own_engine {
    ($($file:ident { $($engine:ident: { $($case:ident),+ $(,)? })+ })+) => {
        $(
            mod $file {
                $(
                    mod $engine {
                        $(
                            #[tokio::test]
                            async fn $case() {
                                crate::cases::$file::$case().await;
                            }
                        )+
                    }
                )+
            }
        )+
    };
}

with_own_engine! {
    users {
        docker: {
            an_ordinary_users_jobs_can_be_that_user_and_leave_no_foreign_file,
            what_belongs_to_root_is_removed_for_an_ordinary_user,
            a_socket_that_may_not_be_used_is_an_error_that_says_so,
            users_of_containers_may_be_mapped,
        }
        podman: {
            an_engine_that_may_not_raise_limits_is_given_lower_ones,
        }
        rootless: {
            the_root_of_a_users_own_engine_is_that_user,
            what_belongs_to_the_users_of_an_image_is_removed_for_the_engines_user,
            jobs_can_be_the_user_of_a_users_own_engine,
        }
    }
    copies {
        docker: {
            what_belongs_to_root_is_copied_for_an_ordinary_user,
            what_belongs_to_mapped_users_is_copied_for_an_ordinary_user,
            an_engine_that_dies_while_a_copy_is_made_leaves_nothing_half,
        }
        rootless: {
            what_belongs_to_the_users_of_an_image_is_copied_for_the_engines_user,
        }
    }
    engine_death {
        docker: {
            an_engine_that_dies_while_a_sandbox_is_made_leaves_none_or_one,
            a_command_outlives_the_engine_and_runs_once,
            a_command_that_the_engine_takes_along_is_reported_and_runs_once,
            an_engine_that_was_restarted_is_no_stop_of_the_users,
        }
    }
}
