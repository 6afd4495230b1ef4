"""Settings: environment before file before default, and every mistake named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from vodpress.domain.failure import ExitCode, InvalidRequest
from vodpress.settings import Settings, load_settings


def test_defaults_work_with_nothing_set(tmp_path: Path) -> None:
    settings = load_settings({"VODPRESS_HOME": str(tmp_path)})
    assert settings == Settings(home=tmp_path)
    assert settings.database_url is None
    assert settings.storage_location == str(tmp_path / "storage")
    assert settings.scratch == tmp_path / "scratch"
    assert settings.media_retry_delays_seconds == (60, 300, 1500)
    assert settings.disk_reserve_bytes == 1024**3
    assert settings.encode_jobs == len(os.sched_getaffinity(0))


def test_environment_wins_over_file_and_file_over_default(tmp_path: Path) -> None:
    (tmp_path / "vodpress.toml").write_text("encode_jobs = 3\nlight_jobs = 4\nmedia_retry_delays_seconds = [1, 2.5]\n")
    settings = load_settings({"VODPRESS_HOME": str(tmp_path), "VODPRESS_LIGHT_JOBS": "5", "VODPRESS_NICE": ""})
    assert (settings.encode_jobs, settings.light_jobs, settings.nice) == (3, 5, 5)
    assert settings.media_retry_delays_seconds == (1, 2.5)


def test_a_named_file_replaces_that_of_the_home(tmp_path: Path) -> None:
    (tmp_path / "vodpress.toml").write_text("encode_jobs = 3\n")
    other = tmp_path / "other.toml"
    other.write_text(f'light_jobs = 4\nhome = "{tmp_path / "elsewhere"}"\n')
    settings = load_settings({"VODPRESS_CONFIG": str(other)})
    assert (settings.home, settings.light_jobs) == (tmp_path / "elsewhere", 4)
    assert settings.encode_jobs == Settings().encode_jobs


def test_keywords_alone_read_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VODPRESS_INGEST_JOBS", "7")
    assert Settings().ingest_jobs == 2


def test_lists_are_separated_by_commas_in_the_environment(tmp_path: Path) -> None:
    environ = {"VODPRESS_HOME": str(tmp_path), "VODPRESS_MEDIA_RETRY_DELAYS_SECONDS": " 1, 2.5,3 "}
    assert load_settings(environ).media_retry_delays_seconds == (1, 2.5, 3)


def test_paths_become_absolute_and_programs_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    tool = tmp_path / "bin" / "ffmpeg"
    tool.parent.mkdir()
    tool.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    settings = load_settings(
        {
            "VODPRESS_HOME": "data",
            "VODPRESS_SCRATCH_DIR": "~/scratch",
            "VODPRESS_FFMPEG": "ffmpeg",
            "VODPRESS_FFPROBE": "bin/ffprobe",
            "VODPRESS_PACKAGER": "not-installed",
        }
    )
    assert (settings.home, settings.scratch) == (tmp_path / "data", tmp_path / "me" / "scratch")
    assert (settings.ffmpeg, settings.ffprobe) == (tool, tmp_path / "bin" / "ffprobe")
    assert settings.packager == Path("not-installed")


@pytest.mark.parametrize(
    ("environ", "fragment"),
    [
        ({"VODPRESS_ENCODE_JBS": "2"}, "unknown setting 'VODPRESS_ENCODE_JBS'; did you mean 'VODPRESS_ENCODE_JOBS'?"),
        ({"VODPRESS_CONFG": "x"}, "did you mean 'VODPRESS_CONFIG'?"),
        ({"VODPRESS_QQQQQQQQQQQQQQQQQQQQ": "x"}, "docs/reference/settings.md"),
        ({"VODPRESS_ENCODE_JOBS": "many"}, "VODPRESS_ENCODE_JOBS: input should be a valid integer"),
        ({"VODPRESS_ENCODE_JOBS": "0"}, "VODPRESS_ENCODE_JOBS: input should be greater than or equal to 1"),
        ({"VODPRESS_DECODE_CHECK": "some"}, "VODPRESS_DECODE_CHECK: input should be 'sample', 'whole' or 'none'"),
        ({"VODPRESS_LEASE_SECONDS": "nan"}, "VODPRESS_LEASE_SECONDS"),
        ({"VODPRESS_CONFIG": "/nowhere/at/all.toml"}, "/nowhere/at/all.toml: No such file or directory"),
    ],
)
def test_a_mistake_in_the_environment_is_named(tmp_path: Path, environ: dict[str, str], fragment: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_settings({"VODPRESS_HOME": str(tmp_path), **environ})
    assert caught.value.code == "invalid_settings"
    assert caught.value.exit_code is ExitCode.USAGE
    assert fragment in caught.value.message


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("ladder = 'mine'\n", "unknown setting 'ladder'; did you mean 'default_ladder'?"),
        ("encode_jobs = 'many'\n", "vodpress.toml: encode_jobs: input should be a valid integer"),
        ("encode_jobs = \n", "no valid TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, fragment: str) -> None:
    (tmp_path / "vodpress.toml").write_text(text)
    with pytest.raises(InvalidRequest, match=r"vodpress\.toml") as caught:
        load_settings({"VODPRESS_HOME": str(tmp_path)})
    assert fragment in caught.value.message


def test_what_the_tests_need_is_no_setting(tmp_path: Path) -> None:
    assert load_settings({"VODPRESS_HOME": str(tmp_path), "VODPRESS_TEST_REQUIRE": "all"}).home == tmp_path


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_settings({"VODPRESS_HOME": str(tmp_path), "VODPRESS_NICE": "x", "VODPRESS_INGEST_JOBS": "y"})
    assert "VODPRESS_NICE" in caught.value.message
    assert "VODPRESS_INGEST_JOBS" in caught.value.message


def test_secrets_are_in_no_message(tmp_path: Path) -> None:
    secret = "hush-hush"
    with pytest.raises(InvalidRequest, match="go together") as caught:
        load_settings({"VODPRESS_HOME": str(tmp_path), "VODPRESS_S3_SECRET_ACCESS_KEY": secret})
    assert secret not in repr(caught.value)
    assert caught.value.__cause__ is None
    shown = repr(
        Settings(
            s3_access_key_id="id", s3_secret_access_key=SecretStr(secret), database_url=f"postgresql://a:{secret}@b/c"
        )
    )
    assert secret not in shown


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().nice = 1


def test_every_setting_says_what_it_is() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
