//! What the agent can look up how to do.

use vestal_config::{Group, LineMode, Names, Text, TextLimits};
use vestal_web::SiteAddress;

vestal_config::keys! {
    /// Skills that are installed and not used: the agent does not see them, and the variables they
    /// ask for are not forwarded.
    SKILLS_DISABLED: Names = "skills.disabled" {
        default: Names::EMPTY,
        limits: (),
        env: ["VESTAL_SKILLS_DISABLED"],
    }

    /// Address of a catalogue of skills: a web site whose sitemap names pages `/OWNER/REPOSITORY/SKILL`,
    /// such as `https://skills.sh`. `vestal skills catalogue` lists all of it.
    SKILLS_CATALOGUE_URL: SiteAddress = "skills.catalogue_url" {
        default: SiteAddress::EMPTY,
        limits: (),
        env: ["VESTAL_SKILLS_CATALOGUE_URL"],
    }

    /// Address of the git repository of a skill in the catalogue, with `{owner}` and `{repository}`;
    /// empty: `https://github.com/{owner}/{repository}`.
    SKILLS_CATALOGUE_GIT: Text = "skills.catalogue_git" {
        default: Text::EMPTY,
        limits: TextLimits { max_bytes: 1024, lines: LineMode::One },
        env: ["VESTAL_SKILLS_CATALOGUE_GIT"],
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group::of(KEYS);
