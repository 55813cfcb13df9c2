//! The sandbox contract, promise by promise, on every backend.
//!
//! One list of cases, which every backend runs, and one each for what only some
//! of them can promise. A case is named for the promise it keeps.
//!
//! What does not depend on the backend (the guest's own work) and what takes
//! long (a kill at every step) runs on `local` and `native` every time, and the
//! former on `docker`, too. On the other backends those cases are in a module
//! `full`, which the everyday run leaves out (`.config/nextest.toml`). On
//! `docker` a process is killed every time at the steps that are that backend's
//! own, and at all of them in `full`.
//!
//! What a container engine alone can show, such as images, limits and an engine
//! that dies, is checked by the tests in `containers`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a case that cannot go on has failed")]

#[macro_use]
mod macros;

mod cases;
mod support;

conformance! {
    every {
        identity: {
            every_process_gets_the_same_instance,
            a_stampede_of_processes_gets_one_instance,
            a_stampede_of_threads_gets_one_instance,
            tasks_never_share_an_instance,
            homes_never_share_an_instance,
            attaching_to_a_running_sandbox_needs_no_lock,
            tasks_with_odd_names_have_sandboxes_of_their_own,
            a_directory_copied_from_another_home_is_refused,
            a_copied_home_leaves_the_original_alone_and_has_its_own_sandboxes,
        }
        survival: {
            a_background_job_survives_its_process_and_is_found_again,
            a_killed_process_leaves_the_sandbox_as_it_is,
            a_foreground_command_survives_the_loss_of_its_caller,
            a_stopped_sandbox_is_started_with_its_files_and_sessions,
            a_killed_guest_is_recovered_and_leaves_no_process,
            a_killed_supervisor_takes_its_job_along_and_no_other,
            a_stuck_guest_is_replaced,
            a_start_that_fails_loses_nothing,
            ended_jobs_are_still_known_after_a_restart,
        }
        lifecycle: {
            looking_is_not_using,
            the_idle_reaper_lets_go_and_the_sandbox_runs_on,
            a_removed_sandbox_leaves_nothing,
            force_removal_can_be_waited_for,
            waiting_for_no_cleanup_is_instant,
            a_retention_that_changes_reaches_the_running_guest,
        }
        owned: {
            a_process_that_does_not_persist_gets_an_instance_of_its_own,
            closing_removes_what_belongs_to_this_process,
            a_killed_owner_takes_its_instance_along,
            a_turn_ends_only_what_keeps_no_files,
            an_idle_owned_sandbox_is_removed_unless_a_job_runs,
            a_conversation_closes_only_what_nobody_else_holds,
            an_instance_whose_maker_stopped_waiting_is_removed_at_the_end,
            an_idle_process_removes_what_it_owns_and_makes_it_again_when_used,
            a_process_that_asks_twice_at_once_closes_all_it_made,
            an_idle_owned_sandbox_is_not_removed_under_an_open_call,
            an_owned_sandbox_whose_guest_was_killed_leaves_nothing,
        }
        reaping: {
            a_stopped_sandbox_past_its_retention_is_removed,
            a_stopped_sandbox_within_its_retention_stays,
            a_running_sandbox_is_never_reaped,
            the_sandbox_about_to_be_used_is_never_reaped,
            leftovers_of_dead_owners_are_removed,
            a_process_that_attaches_to_a_running_sandbox_sweeps_too,
            one_failure_does_not_stop_the_sweep,
            what_a_dead_process_left_unfinished_is_finished_by_the_sweep,
            a_dry_run_changes_nothing,
        }
        crashes: {
            attaching_stopping_and_removing_at_once_leaves_one_sandbox,
        }
        bad_input: {
            a_sandbox_is_private_to_its_user,
        }
    }
    // What takes a directory that the host and the sandbox share, or a backend that the settings name.
    hosted {
        reaping: {
            a_disabled_reaper_does_nothing,
            a_short_process_leaves_the_sweep_to_others_for_a_while,
        }
        binds: {
            directories_of_the_host_are_at_the_same_path,
            a_directory_that_cannot_be_there_is_refused_by_name,
        }
        publishing: {
            published_files_can_be_read_and_run_and_not_changed,
            a_new_version_of_published_files_replaces_the_old,
            published_files_outlive_a_stop_and_come_with_a_new_instance,
            publishing_is_no_drift_and_makes_no_new_instance,
            what_cannot_be_published_is_refused_by_name,
            concurrent_publishers_leave_one_whole_version,
            variables_that_are_asked_for_reach_a_sandbox_that_is_there,
        }
        drift: {
            another_backend_is_refused_with_both_names,
        }
        bad_input: {
            a_planted_socket_is_not_talked_to,
        }
    }
    // What the guest and the records do, the same wherever they are.
    guest {
        commands: {
            stdout_and_stderr_are_separate_and_byte_exact,
            output_is_bounded_with_an_exact_count_of_what_is_left_out,
            a_failing_command_runs_once_whatever_it_prints,
            a_timed_out_command_leaves_no_process,
            a_timeout_ends_its_own_job_and_nothing_else,
            an_interrupted_command_ends_with_130,
            a_workdir_is_for_one_command_only,
            a_missing_workdir_has_an_error_of_its_own,
            shell_text_of_any_length_runs,
            standard_input_of_any_length_arrives,
            a_foreground_command_ends_with_its_shell,
            exit_codes_are_the_commands_own,
            an_argv_is_not_shell_text,
            a_reader_that_stops_reading_slows_only_its_own_job,
            a_terminal_has_a_size_that_can_change,
        }
        lifecycle: {
            an_idle_sandbox_ends_by_itself_and_a_touched_one_does_not,
            a_running_job_keeps_the_sandbox_from_idling_out,
        }
        sessions: {
            functions_aliases_arrays_and_plain_variables_are_kept,
            state_is_kept_after_exit_set_e_and_syntax_errors,
            a_killed_command_leaves_the_state_it_started_from,
            sessions_do_not_see_each_other,
            of_two_commands_at_once_the_last_started_wins,
            background_jobs_never_write_back,
            secrets_are_given_to_the_job_and_never_saved,
            the_callers_environment_comes_anew_each_time,
            provider_keys_of_the_caller_are_stripped,
        }
        jobs: {
            a_killed_job_leaves_no_process_whatever_it_did,
            a_job_can_be_killed_by_another_process,
            acting_on_a_job_starts_no_sandbox,
            a_background_job_runs_in_its_directory,
            a_background_job_reads_what_is_written_to_it,
            the_log_can_be_read_at_any_offset,
            jobs_are_listed_in_the_order_they_started,
            a_job_id_is_never_run_twice,
            a_job_id_is_not_run_again_when_its_job_is_forgotten,
            a_command_that_never_arrived_is_never_run,
            waiting_gives_the_exit_code_or_says_it_still_runs,
            a_session_that_a_dead_process_left_is_ended_with_all_its_jobs,
            ending_a_session_makes_and_starts_nothing,
        }
        files: {
            tilde_means_the_sandboxes_home_for_reading_and_writing,
            relative_paths_start_where_the_session_is,
            writing_through_a_symlink_keeps_the_link_and_the_mode,
            bytes_that_are_no_text_survive_a_patch,
            a_search_finds_lines_by_pattern,
            directories_are_made_listed_moved_and_deleted,
            a_large_file_goes_both_ways_unharmed,
        }
        drift: {
            changed_settings_are_named_and_the_sandbox_goes_on,
            changed_settings_are_applied_to_an_idle_sandbox_on_request,
            changed_settings_are_not_applied_under_a_running_job,
            kept_settings_are_not_mentioned,
        }
        bad_input: {
            a_newer_record_is_refused_and_left_alone,
            a_damaged_record_is_an_error_that_names_the_file,
            a_home_that_cannot_be_written_is_an_error_that_names_it,
            a_full_disk_stops_nothing_and_loses_nothing_saved,
            a_stale_lock_file_is_no_obstacle,
        }
    }
    // A kill at every step of what backends have steps of their own in, and random sequences.
    own_walks {
        crashes: {
            a_process_may_die_at_any_step_of_a_creation,
            a_process_may_die_at_any_step_of_a_start,
            what_a_crash_left_half_written_is_swept,
            a_soak_of_random_kills_loses_nothing_and_leaves_nothing,
            a_soak_of_killed_creations_leaves_one_sandbox_each,
        }
    }
    // A kill at every other step: long.
    walks {
        crashes: {
            a_process_may_die_at_any_step_of_a_stop,
            a_process_may_die_at_any_step_of_a_removal,
            a_guest_may_die_at_any_step,
        }
        model: {
            any_sequence_of_happenings_leaves_one_whole_sandbox,
            any_sequence_of_job_operations_ends_each_job_once,
        }
    }
    // A guest that is process 1 takes all of its container along.
    local {
        survival: {
            processes_that_outlive_all_of_ours_are_found_by_their_mark,
            a_guest_that_keeps_its_dead_starters_lock_is_no_match_for_stop_and_removal,
        }
        snapshots: {
            files_of_the_host_itself_are_not_copied,
        }
    }
    // What only a system of its own can have.
    contained {
        binds: {
            files_are_kept_as_long_as_their_place_says,
            files_that_are_not_to_be_kept_are_never_on_disk,
        }
        drift: {
            a_network_that_is_switched_off_is_off,
            a_mount_that_is_removed_is_gone,
            settings_that_nobody_remembers_are_those_there_are_or_replaced,
        }
        overrides: {
            a_backend_asked_for_one_task_stays_with_it,
            a_mounted_directory_is_part_of_the_task,
            a_directory_that_took_the_name_of_a_mounted_one_is_mounted_in_its_place,
            the_directory_a_process_starts_in_is_mounted_on_request,
        }
        binds: {
            a_sandbox_with_other_directories_is_made_anew,
            places_of_the_system_are_not_covered,
        }
        credentials: {
            declared_credential_files_are_there_for_its_user_alone_and_follow,
            a_credential_file_is_taken_from_nowhere_but_the_users_home,
        }
    }
    // What only images can have.
    containers {
        drift: {
            another_image_is_named_and_taken_on_request,
            an_instance_stays_until_the_one_in_its_place_answers,
        }
        overrides: {
            an_image_and_a_directory_asked_for_one_task_stay_with_it,
        }
    }
    // An engine without root's rights can set limits on some machines only.
    limited {
        drift: {
            a_limit_that_is_lowered_holds,
            settings_that_isolate_less_are_only_named,
            settings_that_isolate_less_wait_while_others_tighten,
        }
    }
    // What builds a sandbox of namespaces can die too.
    native {
        crashes: {
            a_stage_may_die_at_any_step,
        }
        survival: {
            a_guest_that_keeps_its_dead_starters_lock_is_no_match_for_stop_and_removal,
        }
        bad_input: {
            a_required_limit_that_cannot_be_enforced_is_refused_before_anything_ends,
        }
    }
    // What stands beside a container, and what apptainer would add to it.
    apptainer {
        apptainer: {
            a_killed_guest_takes_what_mounts_for_it_along,
            what_a_killed_runtime_leaves_behind_is_ended,
            installed_files_outlive_a_stop_and_a_later_process,
            nothing_of_this_machine_is_seen_unasked,
            commands_have_no_rights_over_this_machine,
            a_directory_is_an_image_too,
            an_image_that_was_replaced_is_refused_by_name,
            an_image_that_cannot_be_had_is_an_error_with_advice,
            an_archive_is_converted_once,
            a_fetch_that_is_given_up_leaves_no_process_and_no_file,
        }
        crashes: {
            a_launch_may_die_at_any_step,
        }
        bad_input: {
            a_required_limit_that_cannot_be_enforced_is_refused_before_anything_ends,
        }
        survival: {
            a_guest_that_keeps_its_dead_starters_lock_is_no_match_for_stop_and_removal,
        }
    }
    // A sandbox with files of its own can be copied, no matter how it was made.
    copied {
        snapshots: {
            a_restored_sandbox_is_what_it_was_in_every_place,
            what_a_system_lacked_it_lacks_again,
            copies_keep_owners_modes_times_links_holes_and_attributes,
            a_fork_is_independent_of_its_source,
            a_fork_of_a_snapshot_is_what_that_was,
            a_busy_sandbox_is_not_copied_unless_it_may_be_stopped,
            processes_that_a_copy_ends_are_named_before,
            what_cannot_be_copied_is_refused_by_name,
            snapshots_stay_with_the_files_and_go_with_them,
            a_rebuilt_sandbox_keeps_its_files_and_has_todays_settings,
            a_sandbox_that_cannot_be_rebuilt_stays_as_it_is,
            a_sandbox_moves_to_the_host_itself_and_back,
            a_long_copy_tells_how_far_it_is,
        }
        copying: {
            a_copy_that_is_given_up_leaves_nothing,
            forks_at_once_are_all_whole_and_of_one_name_there_is_one,
            commands_and_copies_at_once_are_in_nobodys_way,
        }
    }
    // The same with a kill at every step, likewise.
    own_copy_walks {
        copying: {
            a_process_may_die_at_any_step_of_a_snapshot,
            a_process_may_die_at_any_step_of_a_fork,
        }
    }
    copy_walks {
        copying: {
            a_process_may_die_at_any_step_of_the_removal_of_a_snapshot,
            a_process_may_die_at_any_step_of_a_restore,
            a_process_may_die_at_any_step_of_a_rebuild,
        }
    }
    // Numbers of users mean the same to all backends that root runs.
    moved {
        snapshots: {
            a_sandbox_moves_between_backends_with_workspace_and_home,
        }
    }
    // What is to be expected of a connection over a network.
    remote {
        cuts: {
            a_command_outlives_the_connection_that_it_was_sent_over,
            a_cut_connection_is_made_again_to_the_same_instance,
            an_owned_sandbox_outlives_a_cut_connection,
            a_guest_that_cannot_be_reached_is_never_ended,
        }
        overrides: {
            a_mounted_directory_is_part_of_the_task,
        }
        credentials: {
            declared_credential_files_are_there_for_its_user_alone_and_follow,
            a_credential_file_is_taken_from_nowhere_but_the_users_home,
        }
        syncing: {
            what_changes_on_one_side_is_on_the_other_before_and_after_a_command,
            a_second_start_with_nothing_changed_moves_no_file,
            a_file_changed_on_both_sides_is_kept_twice_and_reported,
            nothing_outside_is_reached_by_links_of_either_side,
            a_side_that_lost_everything_has_deleted_nothing,
            what_is_to_be_left_out_stays_where_it_is,
            what_is_not_here_yet_is_brought_back_before_the_copy_is_removed,
            what_cannot_be_brought_back_is_not_removed,
            a_sync_may_die_at_any_step,
            what_is_as_it_was_again_after_a_crash_is_not_deleted,
            what_is_shown_is_a_copy_that_is_put_right,
            processes_that_sync_at_once_agree,
            a_sync_that_loses_its_connection_is_finished_by_the_next,
        }
    }
    // Where a file of the machine says since when an instance has ended.
    aged {
        reaping: {
            an_age_that_cannot_be_read_reaps_nothing,
        }
    }
}
