//! Macros that make tests of lists of cases: a module for each backend.

/// Makes tests of a list of cases on one backend.
macro_rules! tests {
    ($backend:ident { $($file:ident: { $($case:ident),+ $(,)? })* }) => {
        $($(
            #[tokio::test]
            async fn $case() {
                let fixture = crate::support::BackendFixture::$backend();
                crate::cases::$file::$case(&fixture).await;
                fixture.finish().await;
            }
        )+)*
    };
}

/// The same, run by an ordinary user.
macro_rules! tests_of_user {
    ($module:literal $backend:ident $user:ident { $($file:ident: { $($case:ident),+ $(,)? })* }) => {
        $($(
            #[test]
            fn $case() {
                let test = concat!($module, "::", stringify!($case));
                crate::support::User::$user().run(test, &[], async {
                    let fixture = crate::support::BackendFixture::$backend();
                    crate::cases::$file::$case(&fixture).await;
                    fixture.finish().await;
                });
            }
        )+)*
    };
}

/// Makes a module of tests for each backend of the lists of cases.
macro_rules! conformance {
    (
        every $every:tt
        hosted $hosted:tt
        guest $guest:tt
        own_walks $own_walks:tt
        walks $walks:tt
        local $local:tt
        contained $contained:tt
        containers $containers:tt
        limited $limited:tt
        native $native:tt
        apptainer $apptainer:tt
        copied $copied:tt
        own_copy_walks $own_copy_walks:tt
        copy_walks $copy_walks:tt
        moved $moved:tt
        remote $remote:tt
        aged $aged:tt
    ) => {
        mod local {
            tests!(local $every);
            tests!(local $aged);
            tests!(local $hosted);
            tests!(local $guest);
            tests!(local $own_walks);
            tests!(local $walks);
            tests!(local $local);
        }
        mod docker {
            tests!(docker $every);
            tests!(docker $aged);
            tests!(docker $hosted);
            tests!(docker $guest);
            tests!(docker_steps $own_walks);
            tests!(docker $contained);
            tests!(docker $containers);
            tests!(docker $limited);
            tests!(docker $copied);
            tests!(docker_steps $own_copy_walks);
            tests!(docker $moved);
            mod full {
                tests!(docker $own_walks);
                tests!(docker $walks);
                tests!(docker $own_copy_walks);
                tests!(docker $copy_walks);
            }
        }
        mod podman {
            tests!(podman $every);
            tests!(podman $aged);
            tests!(podman $hosted);
            tests!(podman $contained);
            tests!(podman $containers);
            tests!(podman $limited);
            tests!(podman $copied);
            tests!(podman $moved);
            mod full {
                tests!(podman $guest);
                tests!(podman $own_walks);
                tests!(podman $walks);
                tests!(podman $own_copy_walks);
                tests!(podman $copy_walks);
            }
        }
        mod rootless {
            tests_of_user!("rootless" rootless of_rootless $every);
            tests_of_user!("rootless" rootless of_rootless $aged);
            tests_of_user!("rootless" rootless of_rootless $hosted);
            tests_of_user!("rootless" rootless of_rootless $contained);
            tests_of_user!("rootless" rootless of_rootless $containers);
            tests_of_user!("rootless" rootless of_rootless $copied);
            mod full {
                tests_of_user!("rootless::full" rootless of_rootless $guest);
                tests_of_user!("rootless::full" rootless of_rootless $own_walks);
                tests_of_user!("rootless::full" rootless of_rootless $walks);
                tests_of_user!("rootless::full" rootless of_rootless $own_copy_walks);
                tests_of_user!("rootless::full" rootless of_rootless $copy_walks);
            }
        }
        mod native {
            tests!(native $every);
            tests!(native $aged);
            tests!(native $hosted);
            tests!(native $guest);
            tests!(native $own_walks);
            tests!(native $walks);
            tests!(native $contained);
            tests!(native $limited);
            tests!(native $native);
            tests!(native $copied);
            tests!(native $own_copy_walks);
            tests!(native $copy_walks);
        }
        mod toy {
            tests!(toy $every);
            tests!(toy $aged);
            tests!(toy $guest);
            tests!(toy $own_walks);
            tests!(toy $walks);
            tests!(toy $remote);
        }
        mod ssh {
            tests!(ssh $every);
            tests!(ssh $aged);
            tests!(ssh $own_walks);
            tests!(ssh $remote);
            mod machines;
            mod moves;
            mod full {
                tests!(ssh $guest);
                tests!(ssh $walks);
            }
            // In namespaces of their own over there.
            mod isolated {
                tests!(ssh_isolated $remote);
                mod full {
                    tests!(ssh_isolated $every);
                    tests!(ssh_isolated $own_walks);
                    tests!(ssh_isolated $guest);
                    tests!(ssh_isolated $walks);
                }
            }
            mod isolation;
            // In containers of its engine.
            mod containers {
                tests!(ssh_containers $remote);
                mod full {
                    tests!(ssh_containers $every);
                    tests!(ssh_containers $own_walks);
                    tests!(ssh_containers $guest);
                }
            }
            mod engines;
        }
        mod apptainer {
            tests!(apptainer $every);
            tests!(apptainer $hosted);
            tests!(apptainer $own_walks);
            tests!(apptainer $contained);
            tests!(apptainer $limited);
            tests!(apptainer $apptainer);
            tests!(apptainer $copied);
            tests!(apptainer $moved);
            mod full {
                tests!(apptainer $guest);
                tests!(apptainer $walks);
                tests!(apptainer $own_copy_walks);
                tests!(apptainer $copy_walks);
            }
        }
        mod apptainer_user {
            tests_of_user!("apptainer_user" apptainer of_apptainer $every);
            tests_of_user!("apptainer_user" apptainer of_apptainer $hosted);
            tests_of_user!("apptainer_user" apptainer of_apptainer $contained);
            tests_of_user!("apptainer_user" apptainer of_apptainer $limited);
            tests_of_user!("apptainer_user" apptainer of_apptainer $apptainer);
            tests_of_user!("apptainer_user" apptainer of_apptainer $copied);
            mod full {
                tests_of_user!("apptainer_user::full" apptainer of_apptainer $guest);
                tests_of_user!("apptainer_user::full" apptainer of_apptainer $own_walks);
                tests_of_user!("apptainer_user::full" apptainer of_apptainer $walks);
                tests_of_user!("apptainer_user::full" apptainer of_apptainer $own_copy_walks);
                tests_of_user!("apptainer_user::full" apptainer of_apptainer $copy_walks);
            }
        }
        mod kubernetes {
            tests!(kubernetes $every);
            tests!(kubernetes $own_walks);
            tests!(kubernetes $remote);
            mod faults;
            mod moves;
            mod snapshots;
            mod full {
                tests!(kubernetes $guest);
                tests!(kubernetes $walks);
            }
        }
        mod native_user {
            tests_of_user!("native_user" native of_native $every);
            tests_of_user!("native_user" native of_native $aged);
            tests_of_user!("native_user" native of_native $hosted);
            tests_of_user!("native_user" native of_native $contained);
            tests_of_user!("native_user" native of_native $limited);
            tests_of_user!("native_user" native of_native $native);
            tests_of_user!("native_user" native of_native $copied);
            mod full {
                tests_of_user!("native_user::full" native of_native $guest);
                tests_of_user!("native_user::full" native of_native $own_walks);
                tests_of_user!("native_user::full" native of_native $walks);
                tests_of_user!("native_user::full" native of_native $own_copy_walks);
                tests_of_user!("native_user::full" native of_native $copy_walks);
            }
        }
    };
}
