// A DRA driver for tests: it offers the RNICs of its node, and gives a claim the device nodes of what the scheduler
// has allocated, by CDI, with owner and mode for the sidecar.
//
// Each RNIC is offered as several devices, because its device node can be opened by several pods. The device `nothing`
// can be allocated and has no device node.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "rdma.fairlead.test"
	cdiKind    = driverName + "/rnic"
	nothing    = "nothing"
	shares     = 4 // pods that one RNIC serves at a time
)

type deviceNode struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Major    int64  `json:"major"`
	Minor    int64  `json:"minor"`
	FileMode uint32 `json:"fileMode"`
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
}

type cdiEdits struct {
	DeviceNodes []deviceNode `json:"deviceNodes"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

type cdiSpec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type driver struct {
	sysfs, cdiFolder string
	owner            uint32
	rnics            map[string]string // name of a device: its RNIC
}

func readLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

// rnicsOf returns the names of the node's RNICs, and the folder of each below /sys/class/infiniband_verbs.
func rnicsOf(sysfs string) (map[string]string, error) {
	folders, err := filepath.Glob(filepath.Join(sysfs, "class/infiniband_verbs/uverbs*"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, folder := range folders {
		name, err := readLine(filepath.Join(folder, "ibdev"))
		if err != nil {
			return nil, err
		}
		found[name] = folder
	}
	return found, nil
}

func (d *driver) node(rnic string) (deviceNode, error) {
	found, err := rnicsOf(d.sysfs)
	if err != nil {
		return deviceNode{}, err
	}
	folder, present := found[rnic]
	if !present {
		return deviceNode{}, fmt.Errorf("the node has no RNIC %q", rnic)
	}
	numbers, err := readLine(filepath.Join(folder, "dev"))
	if err != nil {
		return deviceNode{}, err
	}
	before, after, _ := strings.Cut(numbers, ":")
	major, majorError := strconv.ParseInt(before, 10, 32)
	minor, minorError := strconv.ParseInt(after, 10, 32)
	return deviceNode{"/dev/infiniband/" + filepath.Base(folder), "c", major, minor, 0o600, d.owner, d.owner},
		errors.Join(majorError, minorError)
}

func (d *driver) specPath(claim types.UID) string {
	return filepath.Join(d.cdiFolder, driverName+"-"+string(claim)+".json")
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	if claim.Status.Allocation == nil {
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("claim %s/%s is not allocated", claim.Namespace, claim.Name)}
	}
	spec := cdiSpec{"0.6.0", cdiKind, nil}
	var result kubeletplugin.PrepareResult
	for _, allocated := range claim.Status.Allocation.Devices.Results {
		if allocated.Driver != driverName {
			continue
		}
		device := kubeletplugin.Device{Requests: []string{allocated.Request}, PoolName: allocated.Pool, DeviceName: allocated.Device}
		if allocated.Device != nothing {
			node, err := d.node(d.rnics[allocated.Device])
			if err != nil {
				return kubeletplugin.PrepareResult{Err: err}
			}
			name := string(claim.UID) + "-" + allocated.Device
			spec.Devices = append(spec.Devices, cdiDevice{name, cdiEdits{[]deviceNode{node}}})
			device.CDIDeviceIDs = []string{cdiKind + "=" + name}
		}
		result.Devices = append(result.Devices, device)
	}
	if len(spec.Devices) > 0 {
		text, err := json.Marshal(spec)
		if err == nil {
			err = os.WriteFile(d.specPath(claim.UID), text, 0o644)
		}
		if err != nil {
			return kubeletplugin.PrepareResult{Err: err}
		}
	}
	log.Printf("prepared %s/%s: %d device nodes", claim.Namespace, claim.Name, len(spec.Devices))
	return result
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
	}
	return results, nil
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.specPath(claim.UID))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

// offered returns the devices of the node's ResourceSlice.
func (d *driver) offered() ([]resourceapi.Device, error) {
	found, err := rnicsOf(d.sysfs)
	if err != nil {
		return nil, err
	}
	device := func(name, rnic string) resourceapi.Device {
		return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"rnic": {StringValue: &rnic}}}
	}
	devices := []resourceapi.Device{device(nothing, nothing)}
	for rnic := range found {
		for share := range shares {
			name := fmt.Sprintf("%s-%d", rnic, share)
			d.rnics[name] = rnic
			devices = append(devices, device(name, rnic))
		}
	}
	return devices, nil
}

func run(ctx context.Context, node, kubeconfig, plugins string, d *driver) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(plugins, "plugins", driverName)
	for _, folder := range []string{data, filepath.Join(plugins, "plugins_registry"), d.cdiFolder} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	devices, err := d.offered()
	if err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(driverName), kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(node), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(plugins, "plugins_registry")))
	if err != nil {
		return err
	}
	defer helper.Stop()
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}); err != nil {
		return err
	}
	log.Printf("offers %d devices", len(devices))
	<-ctx.Done()
	return nil
}

func main() {
	node := flag.String("node", "", "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "of the API server")
	plugins := flag.String("kubelet", "/var/lib/kubelet", "folder of the kubelet")
	cdiFolder := flag.String("cdi", "/var/run/cdi", "folder of CDI files")
	sysfs := flag.String("sysfs", "/sys", "where the RNICs of the node are found")
	owner := flag.Uint("owner", 2201, "owner of the device nodes")
	flag.Parse()
	if *node == "" {
		log.Fatal("-node: missing; allowed: the name of the node")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	d := &driver{*sysfs, *cdiFolder, uint32(*owner), map[string]string{}}
	if err := run(ctx, *node, *kubeconfig, *plugins, d); err != nil {
		log.Fatal(err)
	}
}
