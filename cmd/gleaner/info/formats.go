package info

// The formats of ginfo: those of sinfo(1), and last the GPUs, free and all.
const (
	infoGPUs = " %x" // the column that only ginfo has

	infoFormat         = "%#P %.5a %.10l %.6D %.6t %#N" + infoGPUs
	infoSummaryFormat  = "%#P %.5a %.10l %.16F  %#N" + infoGPUs
	infoLongFormat     = "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %#N" + infoGPUs
	infoNodeFormat     = "%#N %.6D %#P %6t" + infoGPUs
	infoLongNodeFormat = "%#N %.6D %#P %.11T %.4c %.8z %.6m %.8d %.6w %.8f %20E" + infoGPUs
	infoReasonFormat   = "%20E %9u %19H %N"
	infoLongReason     = "%20E %12U %19H %6t %N"
)
