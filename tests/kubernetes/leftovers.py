"""Remains of Fairlead after an uninstallation."""
KINDS = ("all,clusterrole,clusterrolebinding,configmap,mutatingadmissionpolicy,mutatingadmissionpolicybinding,"
         "mutatingwebhookconfiguration,role,rolebinding,secret,serviceaccount,validatingadmissionpolicy,"
         "validatingadmissionpolicybinding")


def on_node(run):
    """Files on a node. `run` returns the output of a command there."""
    files = run("sh", "-c", "find /opt/cni/bin /etc/cni/net.d -name '*fairlead*'; ls -d /run/fairlead-cni/* 2>/dev/null; true")
    entries = run("sh", "-c", "grep -l fairlead /etc/cni/net.d/*; true")
    return [*files.split(), *(f"an entry in {name}" for name in entries.split())]


def objects_left(kubectl):
    """Objects and labels in the API."""
    names = [name for name in kubectl("get", KINDS, "-A", "-o", "name").split() if "fairlead" in name]
    if "fairlead" in kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.labels}"):
        names.append("labels of a node")
    return names
