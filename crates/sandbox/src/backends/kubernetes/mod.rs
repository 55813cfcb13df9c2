//! Backend `kubernetes`: a sandbox is a plain pod with a volume claim for workspace and home.
//!
//! Pods are never restarted by the cluster: a stopped sandbox is a pod that has ended, and its
//! start is another pod on the same claim. So nothing runs that the engine
//! does not know of, and what a node does to a pod shows as its end.
//!
//! | file | what |
//! |---|---|
//! | `settings` | the keys, and what their values may be |
//! | `cluster` | which cluster it is, and requests to it |
//! | `failure` | what the cluster answers when it refuses, in words with advice |
//! | `objects` | objects as the cluster tells of them: whose a pod is, what it is doing, what is in its way |
//! | `manifest` | pods, claims and policies to make (no I/O) |
//! | `exec` | the byte stream to a program in a pod |
//! | `claims` | the claim of a sandbox, and what of it counts |
//! | `upload` | a program's way into a pod |
//! | `launch` | a pod from its making to its guest listening |
//! | `copies` | snapshots on a sandbox's own claim, and what is made of them |
//! | `spec` | the settings that shape pods, and which of their changes isolate more |
//! | `doctor` | what `vestal doctor` says of a cluster |
//! | `backend` | the backend's traits |

#[cfg(feature = "kubernetes")]
mod backend;
#[cfg(feature = "kubernetes")]
mod claims;
#[cfg(feature = "kubernetes")]
mod cluster;
#[cfg(feature = "kubernetes")]
mod copies;
#[cfg(feature = "kubernetes")]
mod doctor;
#[cfg(feature = "kubernetes")]
mod exec;
#[cfg(feature = "kubernetes")]
mod failure;
#[cfg(feature = "kubernetes")]
mod launch;
#[cfg(feature = "kubernetes")]
mod manifest;
#[cfg(feature = "kubernetes")]
mod objects;
pub(crate) mod settings;
#[cfg(feature = "kubernetes")]
mod spec;
#[cfg(feature = "kubernetes")]
mod upload;

#[cfg(feature = "kubernetes")]
pub(crate) use backend::{DECLARATION, Kubernetes};
