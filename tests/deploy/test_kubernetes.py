"""The form for Kubernetes: it builds, obeys Kubernetes' schemas, and runs what the compose file runs."""

import re
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
IMAGE = "registry.example.org/nightjar:latest"
VERSIONS = ["1.28", "1.34"]
WORKLOADS = {"Deployment", "StatefulSet"}
PREPARED = {
    "coordinator.toml": "population = 'demo'\n",
    "passwords.env": "POSTGRES_PASSWORD=a\nBROKER_PASSWORD=b\nGRAFANA_PASSWORD=c\n",
    "certificates/fullchain.pem": "chain",
    "certificates/privkey.pem": "key",
    "prometheus/nightjar-token": "token",
    "prometheus/webhook-url": "https://chat.example/hook",
}
ELSEWHERE = {"PGDATA"}
"""Variables that only a cluster's volumes need."""


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed: apt install kubernetes-client")
    folder = tmp_path_factory.mktemp("kustomize") / "deploy"
    shutil.copytree(DEPLOY, folder)
    for name, text in PREPARED.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module")
def containers(objects):
    """Name -> container and the volumes of its pod."""
    pods = [each["spec"]["template"]["spec"] for each in objects if each["kind"] in WORKLOADS]
    return {container["name"]: (container, pod.get("volumes", [])) for pod in pods for container in pod["containers"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_obeys_the_schemas(objects, version):
    assert len(objects) > 20
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)


def test_the_same_services_run_from_the_same_images_with_the_same_commands(containers):
    assert containers.keys() == SERVICES.keys()
    for name, service in SERVICES.items():
        container, _ = containers[name]
        assert container["image"].replace(IMAGE, "nightjar") == service["image"]
        assert container.get("args") == service.get("command")
        assert "command" not in container


def environment(container):
    """Name -> value, with ``<KEY>`` for a value that is prepared."""
    found: dict[str, str] = {}
    for variable in container.get("env", []):
        taken = variable.get("valueFrom", {"": {"key": ""}})
        text = variable.get("value") or f"<{next(iter(taken.values()))['key']}>"
        found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda named: found[named[1]], text)
    return found


def test_they_have_the_same_environment(containers):
    for name, service in SERVICES.items():
        wanted = {
            key: re.sub(r"\$\{(\w+).*?\}", r"<\1>", str(value)) for key, value in service.get("environment", {}).items()
        }
        found = environment(containers[name][0])
        helpers = {key for key, value in found.items() if value == f"<{key}>"} - wanted.keys()
        assert {key: value for key, value in found.items() if key not in helpers | ELSEWHERE} == wanted, name


def test_the_same_ports_are_published(objects):
    published = {
        port.split(":")[0]
        for service in SERVICES.values()
        for port in service.get("ports", [])
        if not port.startswith("127.0.0.1")
    }
    balanced = [each["spec"]["ports"] for each in objects if each["kind"] == "Service" and "type" in each["spec"]]
    assert {str(port["port"]) for ports in balanced for port in ports} == published
    opened = [
        {str(port["port"]) for rule in each["spec"]["ingress"] for port in rule.get("ports", [])}
        for each in objects
        if each["kind"] == "NetworkPolicy"
    ]
    assert set().union(*opened) == published


def test_each_address_that_a_file_names_is_a_service(objects):
    files = [DEPLOY / name for name in ("compose.yaml", "nginx.conf")]
    files += [*(DEPLOY / "prometheus").glob("*.yml"), DEPLOY / "grafana" / "datasource.yaml"]
    text = "\n".join(line for path in files for line in path.read_text().splitlines() if "image: " not in line)
    named = set(re.findall(rf"\b({'|'.join(SERVICES)}):(\d+)", text)) | {("mosquitto", "1884"), ("postgresql", "5432")}
    offered = {
        (each["metadata"]["name"], str(port["port"]))
        for each in objects
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    assert len(named) > 5
    assert named <= offered


def test_the_same_files_are_where_the_programs_look(objects, containers):
    held = {
        (each["kind"].lower(), each["metadata"]["name"]): set(each["data"])
        for each in objects
        if each["kind"] in {"ConfigMap", "Secret"}
    }
    for name, service in SERVICES.items():
        container, volumes = containers[name]
        files = {}
        for mount in container.get("volumeMounts", []):
            volume = next((each for each in volumes if each["name"] == mount["name"]), {})
            source = (
                ("configmap", volume["configMap"]["name"])
                if "configMap" in volume
                else ("secret", volume["secret"]["secretName"])
                if "secret" in volume
                else None
            )
            files[mount["mountPath"]] = held.get(source, set())
            if source and "subPath" in mount:
                assert mount["subPath"] in files[mount["mountPath"]]
        for volume in service.get("volumes", []):
            source, inside, *_ = volume.split(":")
            assert inside in files, (name, inside)
            if source.startswith(".") and (DEPLOY / source).is_dir() and files[inside]:
                assert files[inside] <= {path.name for path in (DEPLOY / source).iterdir()}
